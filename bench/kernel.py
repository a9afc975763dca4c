"""Servers in the kernel mode beside the same servers bare: nothing loaded, for the tracepoint hears of every socket.

Two network namespaces and an unshaped link; the server in an opted-in cgroup and on the last processor, the load on the
first. The same server process is asked bare and in kernel mode, in turns; each turn opens its connections anew. Both
congestion controls, where the kernel has them. Then what the programs take by the kernel's own count (bpf_stats, its
two clocks included): ns a packet out and in, ns a write, of which one begins a flow where each answer is one write;
and all of them together a request. `python -m bench kernel --loads redis,nginx-100k-bbr` chooses.
Needs root, cgroup v2 and clang; without, the benchmark says so and is skipped.
"""

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from hostlib.hostd import kernel as kernel_mode
from hostlib.hostd import tagger
from hostlib.hostd.daemon import KERNEL_GATHER_S
from hostlib.hostd.place import Place
from hostlib.hostd.scope import Scope
from lab.fabric.cgroups import cgroup, joined
from lab.fabric.netns import entered

from .beside import build, built, cpu_ns_of, do, in_turns, is_skipped, last_cpu, policy, row_per_s, run_in, two_hosts
from .shim_link import controlled_by
from .shim_programs import ASK_FIRST_ROUNDS, CONNECTIONS, nginx_argv

NET, SERVER = "198.19.249", "198.19.249.1"
PORT = 8080
REPEATS = 10
SECONDS = 2
BPF_STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
KERNEL = "kernel"
NGINX_CONNECTIONS = 8
GOAL = ">= 0.98"
CONTROLS = ("cubic", "bbr")
FILES = {1_000: "1k", 100_000: "100k", 1_000_000: "1m"}


@dataclass(frozen=True)
class Seen:
    """What a load saw."""

    per_s: float
    requests: float  # in all; bytes where that is what is counted


@dataclass(frozen=True)
class Load:
    """A server's command by its folder, and how it is asked in the client's namespace: what it carries a second.

    `name`: as an option names it."""

    name: str
    argv: Callable[[Path], list[str]]
    ask: Callable[[str, Path], Seen]


def output(client: str, *argv: str) -> str:
    """What a load said, on the first processor."""
    command = run_in(client, "taskset", "-c", "0", *argv)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def nginx(size: int, more: str) -> Load:
    """Files by sendfile."""

    def argv(place: Path) -> list[str]:
        command = nginx_argv(PORT, place, SERVER, more)
        (place / f"nginx{PORT}" / "file").write_bytes(bytes(size))
        return command

    def ask(client: str, _: Path) -> Seen:
        url = f"http://{SERVER}:{PORT}/file"
        said = output(client, "wrk", "-t1", f"-c{NGINX_CONNECTIONS}", f"-d{SECONDS}s", url)
        rate, requests = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
        assert rate and requests
        return Seen(float(rate[1]), int(requests[1]))

    return Load(f"nginx-{FILES[size]}{'-nopush' if more else ''}", argv, ask)


def redis() -> Load:
    """GETs of 100 bytes."""

    requests = 100_000

    def ask(client: str, _: Path) -> Seen:
        argv = ["redis-benchmark", "-h", SERVER, "-p", str(PORT), "-t", "get", "-n", str(requests)]
        said = output(client, *argv, "-c", str(CONNECTIONS), "--csv")
        return Seen(float(said.splitlines()[-1].split(",")[1].strip('"')), requests)

    argv = ["redis-server", "--port", str(PORT), "--bind", SERVER, "--save", "", "--protected-mode", "no"]
    return Load("redis", lambda place: [*argv, "--dir", str(place)], ask)


def memcached() -> Load:
    """Gets of a key that is not there."""

    rounds = 8_000

    def ask(client: str, place: Path) -> Seen:
        answer = len(b"END\r\n")
        argv = [str(place / "ask"), f"{SERVER}:{PORT}", str(CONNECTIONS), str(rounds), r"get k\n", str(answer), "sleep"]
        return Seen(float(output(client, *argv)), (rounds + ASK_FIRST_ROUNDS) * CONNECTIONS)

    argv = ["memcached", "-l", SERVER, "-p", str(PORT), "-t", "1", "-u", "nobody"]
    return Load("memcached", lambda _: argv, ask)


def iperf3() -> Load:
    """One stream from the server, in bytes a second."""

    def ask(client: str, _: Path) -> Seen:
        said = json.loads(output(client, "iperf3", "-J", "-R", "-c", SERVER, "-p", str(PORT), "-t", str(SECONDS)))
        received = said["end"]["sum_received"]
        return Seen(received["bits_per_second"] / 8, received["bytes"])

    return Load("iperf3", lambda _: ["iperf3", "-s", "-p", str(PORT)], ask)


def every_load() -> dict[str, Load]:
    """By name."""
    found = [nginx(size, more) for more in ("", "tcp_nopush on;") for size in FILES]
    return {load.name: load for load in (*found, iperf3(), redis(), memcached())}


def loads() -> list[str]:
    """Those that may be chosen: each load under each congestion control."""
    return [f"{name}-{control}" for control in CONTROLS for name in every_load()]


class Switch:
    """Turns the kernel mode on and off on the server's host."""

    def __init__(self, netns: str, run_dir: Path, cgroup: Path) -> None:
        self._netns, self._place, self._cgroup = netns, Place(run_dir), cgroup
        self._bpf = run_dir / "bpf"
        self._taken: threading.Thread | None = None
        self._is_off = threading.Event()

    def on(self) -> None:
        """As `qclimb-hostd --kernel` does."""
        wanted = policy(Mode.PIAS)
        with entered(self._netns):
            marks = tagger.Tagger(self._place, ("e0",), cgroups=(self._cgroup,))
            marks.follow(wanted)
            finds = kernel_mode.KernelMode(self._place, Scope((self._cgroup,)), marks)
            finds.follow(wanted)
        assert not finds.problem, finds.problem
        self._is_off.clear()
        self._taken = threading.Thread(target=self._take, args=(finds,))
        self._taken.start()

    def _take(self, finds: kernel_mode.KernelMode) -> None:
        """Reads the records as often as hostd does."""
        while not self._is_off.wait(KERNEL_GATHER_S):
            finds.read()
        finds.close()

    def off(self) -> None:
        """Nothing of it stays."""
        self._is_off.set()
        if self._taken is not None:
            self._taken.join()
            self._taken = None
        with entered(self._netns):
            kernel_mode.remove(self._bpf)
            tagger.remove(self._place)

    def costs(self) -> dict[str, tuple[int, int]]:
        """Of each program, runs and ns since it was loaded, by the kernel's count."""
        found = {}
        for pin in (*self._bpf.glob("kernel-*/*"), *self._bpf.glob("programs-*/*")):
            shown = json.loads(
                subprocess.check_output(["bpftool", "-j", "prog", "show", "pinned", str(pin)], text=True)
            )
            found[pin.name] = (shown.get("run_cnt", 0), shown.get("run_time_ns", 0))
        return found


@contextmanager
def serving(names: tuple[str, str], place: Path, load: Load, group: Path) -> Iterator[int]:
    """The server in the cgroup, once it answers: its process."""
    argv = joined(["taskset", "-c", last_cpu(), *load.argv(place)], group)
    program = subprocess.Popen(
        ["nsenter", f"--net=/run/netns/{names[0]}", *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ready = run_in(names[1], "sh", "-c", f"exec 3<>/dev/tcp/{SERVER}/{PORT}")
        ready[ready.index("sh")] = "bash"
        while subprocess.run(ready, capture_output=True).returncode:
            time.sleep(0.02)
        yield program.pid
    finally:
        program.terminate()
        program.wait()


def run(chosen: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Rows of the benchmark, each as soon as it is measured. `chosen`: of `loads()`; a load without its congestion
    control stands for all; none: every one."""
    if is_skipped("kernel", "clang", "bpftool", "nginx", "wrk", "iperf3", "memcached", "redis-server"):
        return
    build("tagger")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qclimb-bench-")))
        place.chmod(0o755)
        built(place, "ask.c")
        run_dir = place / "run"
        (run_dir / "bpf").mkdir(parents=True)
        do("mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(run_dir / "bpf"))
        stack.callback(do, "umount", "-l", str(run_dir / "bpf"))
        group = stack.enter_context(cgroup(f"qcbench{os.getpid()}"))
        names = stack.enter_context(two_hosts(NET))
        switch = Switch(names[0], run_dir, group)
        stack.callback(switch.off)
        for control in CONTROLS:
            wanted = [
                load for name, load in every_load().items() if not chosen or {name, f"{name}-{control}"} & set(chosen)
            ]
            if wanted and not controlled_by(names, control):
                click.echo(f"[bench] kernel: {control} skipped: the kernel hasn't it", err=True)
                continue
            for load in wanted:
                with serving(names, place, load, group) as pid:
                    row = beside(switch, load, names[1], place, pid)
                switch.off()
                yield {"load": load.name, "control": control, **row}


def beside(switch: Switch, load: Load, client: str, place: Path, pid: int) -> dict[str, Any]:
    """One load in kernel mode beside the same bare, and what the programs took meanwhile."""

    cpu: dict[str | None, list[float]] = {None: [], KERNEL: []}

    def per_s(mode: str | None) -> float:
        switch.on() if mode else switch.off()
        before_ns = cpu_ns_of(pid)
        seen = load.ask(client, place)
        cpu[mode].append((cpu_ns_of(pid) - before_ns) / seen.requests)
        return seen.per_s

    load.ask(client, place)
    values = in_turns((KERNEL,), REPEATS, per_s)
    switch.on()
    BPF_STATS.write_text("1\n")
    try:
        requests = load.ask(client, place).requests
    finally:
        BPF_STATS.write_text("0\n")
    costs = switch.costs()
    each = {name: round(ns / count) for name, (count, ns) in costs.items() if count}
    return {
        **row_per_s(values, cpu, KERNEL, GOAL),
        "ns a packet": each.get("egress"),
        "ns a packet in": each.get("ingress"),
        "ns a write": next((each[name] for name in each if name.startswith("by_")), None),
        "ns an event of a socket": each.get("scope"),
        "programs' us a request": sum(ns for _, ns in costs.values()) / requests / 1000,
    }
