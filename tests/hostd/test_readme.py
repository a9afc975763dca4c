"""hostlib/README.md, and of README.md the first look at the library, say what is so."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from qclimb.hostfile import decode_policy, encode_policy
from qclimb.policy import Policy
from qclimb.record import PARTLY_UNOBSERVED

from hostlib.run import LIBRARY
from tests.hostd.bench import Hostd, StandIn, policy
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
README = (ROOT / "hostlib" / "README.md").read_text()
FIRST = (ROOT / "README.md").read_text()

needs_library = pytest.mark.skipif(not LIBRARY.is_file(), reason="libqclimb.so is not built: make -C hostlib")


def rows(title: str) -> list[list[str]]:
    """The cells of the table whose first column has this title."""
    lines = README.split(f"| {title} |", 1)[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@needs_library
def test_the_table_of_handled_calls_is_what_the_library_exports() -> None:
    named = {name for row in rows("handled") for name in re.findall(r"`(\w+)`", row[0])}
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
    hints = set(re.findall(r"^int (\w+)\(", (ROOT / "hostlib/include/qclimb.h").read_text(), re.MULTILINE))
    assert named | hints == {line.split()[-1] for line in symbols.stdout.splitlines()}


def test_the_policy_that_is_shown_is_one() -> None:
    shown = re.search(r"^    (\{.*\})$", README, re.MULTILINE)
    assert shown is not None
    found = Policy.from_json(json.loads(shown[1]))
    assert decode_policy(encode_policy(found)) == found


@needs_library
def test_a_first_look_at_the_library_shows_what_the_readme_says(tmp_path: Path) -> None:
    commands, shown = re.findall(
        r"^```\n(qclimb-run.*?)```.*?^```\n(\[qclimb\].*?)```", FIRST, re.MULTILINE | re.DOTALL
    )[0]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "QCLIMB_RUN": str(tmp_path / "unmanaged")}
    script = f"{commands}\nwait".replace("8000", str(port))
    missing = {
        re.sub(r"(fd|call|size|at|waited_us|promotions|demotions)=\d+", r"\1=[0-9]+", line.removeprefix("[qclimb] "))
        for line in shown.splitlines()
    }
    assert len(missing) == 5
    for _ in range(5):  # on a machine that pauses all the time there may be no flow of more than one write
        done = subprocess.run(
            ["bash", "-c", script], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        missing = {line for line in missing if not re.search(rf"^\[qclimb\] .*{line}$", done.stderr, re.MULTILINE)}
        if not missing:
            return
    pytest.fail(f"{missing} not in {done.stderr}")


# 10 bytes by send, then many more by another way; the peer must get all of them.
BYPASS = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.fdopen.restype = ctypes.c_void_p
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
peer, _ = listener.accept()
client.sendall(b"0123456789")
how, more = sys.argv[1], b"x" * 3000
if how == "splice":
    out, into = os.pipe()
    os.write(into, more)
    assert os.splice(out, client.fileno(), len(more)) == len(more)
elif how == "syscall":
    assert libc.syscall(1, client.fileno(), more, len(more)) == len(more)  # write, by number
elif how == "stdio":
    stream = ctypes.c_void_p(libc.fdopen(client.fileno(), b"w"))
    assert libc.fputs(more, stream) >= 0
    assert libc.fflush(stream) == 0
else:
    client.sendall(more)
assert peer.recv(3010, socket.MSG_WAITALL) == b"0123456789" + more
print(client.getsockname()[1])
"""


@needs_library
@pytest.mark.parametrize(("how", "flag"), [("send", 0), ("splice", 0), ("syscall", 16), ("stdio", 16)])
def test_bytes_that_bypass_the_library_arrive_and_are_told_to_the_orchestrator(
    hostd: Hostd, standin: StandIn, how: str, flag: int
) -> None:
    if how == "syscall" and os.uname().machine != "x86_64":
        pytest.skip("the number of write is x86-64's")
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    environment = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(hostd.run_dir)}
    done = subprocess.run(
        [sys.executable, "-c", BYPASS, how], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    wait_until(lambda: standin.records)
    found = [(record.local_port, record.size_bytes, record.flags & PARTLY_UNOBSERVED) for record in standin.records]
    assert found == [(int(done.stdout), 3010, flag)]
