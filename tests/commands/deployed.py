"""Runs in the guest of test_packages_deployed.py, as root beside its systemd: hostd's packaged unit is started, killed,
started again and taken away, and what leaves a container meanwhile is captured. Prints it as JSON.

The container is a user's own: its cgroup, user, network and process namespaces, which hostd does not live in.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).absolute()
RUN = Path("/run/qclimb")
UNIT, BOX = "qclimb-hostd", "box.service"
CGROUP = Path("/sys/fs/cgroup/box.slice")
PORT, SIZE = 7000, 300_000
DEADLINE_S = 120
ALL_PROTOCOLS, SO_RCVBUFFORCE = 3, 33


def do(*words: object, **options: object) -> str:
    return subprocess.run(list(map(str, words)), check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not in {DEADLINE_S} s"
        time.sleep(0.2)


def take() -> None:
    """Prints the DSCPs of one connection's data, in their order, as they come by at this namespace's devices."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PROTOCOLS)) as seen,
        socket.create_server(("", PORT)) as listener,
    ):
        seen.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
        print("up", flush=True)
        with listener.accept()[0] as sender:
            while sender.recv(1 << 16):
                pass
        found: list[int] = []
        seen.setblocking(False)
        while True:
            try:
                packet = seen.recv(200)
            except BlockingIOError:
                break
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            tcp = packet[(packet[0] & 15) * 4 :]
            header = (packet[0] & 15) * 4 + (tcp[12] >> 4) * 4
            is_data = int.from_bytes(packet[2:4]) > header and int.from_bytes(tcp[2:4]) == PORT
            if is_data and found[-1:] != [packet[1] >> 2]:
                found.append(packet[1] >> 2)
    print(json.dumps(found))


def give(address: str) -> None:
    with socket.create_connection((address, PORT)) as to:
        to.sendall(bytes(SIZE))


def sent(address: str, *before: object, **options: object) -> list[int]:
    """The DSCPs that the peer sees of what a program sends; `before`: the words that start it where it lives."""
    argv = ["ip", "netns", "exec", "peer", sys.executable, HERE, "take"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as taker:
        assert taker.stdout.readline() == "up\n"
        do(*before, sys.executable, HERE, "give", address, **options)
        return json.loads(taker.stdout.readline())


def make_links() -> int:
    """A peer beyond a device of the host's and one of the container's; returns the number of a process in there."""
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    apart = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "sleep", "infinity"]
    do("systemd-run", f"--unit={BOX}", "--slice=box.slice", *drop, *apart)
    outer = do("systemctl", "show", "-P", "MainPID", BOX).strip()
    children = Path(f"/proc/{outer}/task/{outer}/children")
    wait_until(children.read_text, "the container")
    inner = int(children.read_text())
    do("ip", "netns", "add", "peer")
    for device, number, netns in (("e0", 250, 1), ("c0", 251, inner)):
        do("ip", "link", "add", device, "netns", netns, "type", "veth", "peer", "name", device, "netns", "peer")
        for words, host in ((["nsenter", "-t", netns, "-n"], 1), (["ip", "netns", "exec", "peer"], 2)):
            do(*words, "ip", "address", "add", f"198.19.{number}.{host}/24", "dev", device)
            do(*words, "ip", "link", "set", device, "up")
    return inner


def main() -> None:
    inner = make_links()
    join = f"echo $$ >{CGROUP}/{BOX}/cgroup.procs; exec nsenter -t {inner} -U -n -p --preserve-credentials"

    def of_container() -> list[int]:
        return sent("198.19.251.2", "sh", "-c", f'{join} "$@"', "sh")

    def start() -> dict[str, object]:
        (RUN / "status.json").unlink(missing_ok=True)
        do("systemctl", "start", UNIT)
        wait_until(lambda: (RUN / "status.json").exists() and status()["kernel"], "hostd's status")
        return status()

    def status() -> dict[str, object]:
        return json.loads((RUN / "status.json").read_text())

    def pinned() -> bool:
        return (RUN / "bpf" / "flows").exists()

    found: dict[str, object] = {"before": of_container()}
    (RUN / "policy").write_bytes(HERE.with_name("policy").read_bytes())
    found["status"] = start()
    found["container"], found["pinned"] = of_container(), pinned()
    found["library"] = sent("198.19.250.2", env={**os.environ, "LD_PRELOAD": "libqclimb.so"})
    do("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
    do("systemctl", "stop", UNIT)  # before it starts anew
    found["result"] = do("systemctl", "show", "-P", "Result", UNIT).strip()
    found["after kill"], found["pinned after kill"] = of_container(), pinned()
    found["status again"] = start()
    found["again"] = of_container()
    do("systemctl", "stop", UNIT)
    found["off"] = do("qclimb-hostd", "tagger-off")
    found["after off"] = of_container()
    print(json.dumps(found))


if __name__ == "__main__":
    {"take": take, "give": give}[sys.argv[1]](*sys.argv[2:]) if len(sys.argv) > 1 else main()
