"""hostd killed under load, and a run directory without room: applications go on, and so does what was in force."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qclimb.hostfile import decode_policy

from hostlib.run import LIBRARY
from tests.hostd.bench import BIN, Hostd, StandIn, policy
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="libqclimb.so is not built: make -C hostlib")

# Messages both ways, each side's digest against the other's, for so many seconds and until its input ends.
TALK = """
import hashlib, os, select, socket, sys, time
end = time.monotonic() + float(sys.argv[1])
server = socket.create_server(("127.0.0.1", 0))
count = 0
while time.monotonic() < end or not select.select([0], [], [], 0)[0] or not count:
    client = socket.create_connection(server.getsockname()); peer, _ = server.accept()
    for one, other in ((client, peer), (peer, client)) * 5:
        data = os.urandom(20_000)
        one.sendall(data)
        assert hashlib.sha256(other.recv(20_000, socket.MSG_WAITALL)).digest() == hashlib.sha256(data).digest()
    client.close(); peer.close()
    count += 1
print(count)
"""


def talk(run_dir: Path, seconds: float, *before: str) -> "subprocess.Popen[str]":
    """An application under the library; `before`: what enters its namespace."""
    return subprocess.Popen(
        [*before, "env", f"LD_PRELOAD={LIBRARY}", f"QCLIMB_RUN={run_dir}", sys.executable, "-c", TALK, str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended_well(application: "subprocess.Popen[str]") -> None:
    said, error = application.communicate(timeout=60)
    assert application.returncode == 0, error
    assert error == ""
    assert int(said) > 0


def test_an_application_outlives_a_hostd_that_is_killed_again_and_again(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    application = talk(hostd.run_dir, 0)

    def takes_its_records() -> bool:
        """The hostd that lives now, and it says so."""
        assert application.poll() is None, application.communicate()
        state = hostd.state()
        return state.get("pid") == hostd.process.pid and state["records"] > 0

    for _ in range(5):
        wait_until(takes_its_records)
        hostd.kill(signal.SIGKILL)
        hostd.restart()
    wait_until(takes_its_records)
    seen = len(standin.records)
    ended_well(application)
    wait_until(lambda: len(standin.records) > seen)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Path, Path, tuple[str, ...]]]:
    """A run directory on 64 KiB of memory in a mount namespace: its path there, from here, and what enters it."""
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        pytest.skip("needs root, unshare and nsenter: mounts a file system")
    inside = tmp_path / "run"
    inside.mkdir()
    mount = f"mount -t tmpfs -o size=64k,mode=755 none {inside} && echo mounted && exec sleep 300"
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != "mounted\n":
            pytest.skip("no tmpfs can be mounted here")
        yield inside, Path(f"/proc/{holder.pid}/root{inside}"), ("nsenter", "-t", str(holder.pid), "-m")
    finally:
        holder.kill()
        holder.wait()


def test_a_full_disk_keeps_the_policy_and_the_next_one_comes_when_there_is_room(
    small_disk: tuple[Path, Path, tuple[str, ...]], standin: StandIn, ca_file: Path, token_file: Path, tmp_path: Path
) -> None:
    inside, outside, enter = small_disk
    standin.policy = policy(7)

    class There(Hostd):
        def _start(self) -> "subprocess.Popen[bytes]":
            with self.log.open("ab") as log:
                return subprocess.Popen([*enter, BIN / "qclimb-hostd", *self._arguments], stderr=log, stdout=log)

    hostd = There(
        tmp_path,
        *("--name", "h1", "--orchestrator", standin.url, "--ca", str(ca_file), "--token-file", str(token_file)),
        *("--poll-interval-s", "0.05"),
    )
    try:
        wait_until(lambda: standin.heartbeats(7))
        with (outside / "filler").open("wb", buffering=0) as filler:
            for _ in range(20):  # what a file in the making gives back is taken, too
                with contextlib.suppress(OSError):
                    while True:
                        filler.write(bytes(1024))
                time.sleep(0.02)
        standin.policy = policy(8)
        before = len(standin.posts)
        ended_well(talk(inside, 0.5, *enter))
        wait_until(lambda: len(standin.posts) > before + 3)
        assert hostd.process.poll() is None
        assert decode_policy((outside / "policy").read_bytes()).generation == 7
        assert not standin.heartbeats(8)
        assert standin.records
        (outside / "filler").unlink()
        wait_until(lambda: standin.heartbeats(8))
        assert decode_policy((outside / "policy").read_bytes()).generation == 8
    finally:
        with contextlib.suppress(ProcessLookupError):
            hostd.process.kill()
        hostd.process.wait()
        print(hostd.log.read_text())
