"""Who shares a connection, or its number: processes that write to it, threads that close it under a writer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import DSCP, assert_demoted, environment, hostd, policy, put_policy
from test_robust import put_model, two_leaves

SHARED = """
import os, socket, threading, time
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
# Room for a round: where there is none the kernel tears messages, too.
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
peer, _ = server.accept()
got = bytearray()
def read():
    while part := peer.recv(65536):
        got.extend(part)
reader = threading.Thread(target=read)
MESSAGE, EACH, ROUNDS = 4000, 10, 40
for round in range(ROUNDS):
    for child in range(4):
        if not os.fork():
            for number in range(EACH):
                assert os.write(client.fileno(), bytes([child + 1]) * MESSAGE) == MESSAGE
            os._exit(0)
    if not round:
        reader.start()
    for child in range(4):
        assert os.wait()[1] == 0
    while len(got) < (round + 1) * 4 * EACH * MESSAGE:
        time.sleep(0.001)
client.shutdown(socket.SHUT_WR)
reader.join()
assert len(got) == ROUNDS * 4 * EACH * MESSAGE, len(got)
messages = [set(got[at:at + MESSAGE]) for at in range(0, len(got), MESSAGE)]
assert all(len(message) == 1 for message in messages), sum(len(message) > 1 for message in messages)
"""


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_no_bytes_of_another_process_come_into_a_small_message(run_dir, mode):
    put_model(run_dir, two_leaves(5))
    put_policy(run_dir, policy(mode, threshold_bytes=(1448, 14480, 100_000), model_generation=5))
    with hostd(run_dir):
        done = subprocess.run(
            [sys.executable, "-c", SHARED], env=environment(run_dir), capture_output=True, text=True, timeout=60
        )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("how", "first_threshold_bytes", "says"),
    [
        ("close", 1_000_000, r"(\d+) - \1 0"),
        ("dup2", 1_000_000, "2000000 - 2000000 0"),
        ("before", 150_000, "-1 EBADF 150000 0"),
    ],
    ids=["close", "dup2", "before"],
)
def test_what_is_left_of_a_write_goes_to_nobody_else_who_got_its_number(
    run_dir, tmp_path, how, first_threshold_bytes, says
):
    """Then the first piece waits for room (what of it went is told), or the whole write waits at a boundary."""
    program = tmp_path / "taken"
    subprocess.run(["cc", "-o", program, Path(__file__).with_name("taken.c"), "-lpthread"], check=True)
    put_policy(run_dir, policy(threshold_bytes=(first_threshold_bytes, 4_000_000, 8_000_000)))
    done = subprocess.run([program, how], env=environment(run_dir), capture_output=True, text=True, timeout=60)
    assert re.fullmatch(says, done.stdout.strip()), done.stdout
    assert done.stderr == ""


FORKED = """
import os, socket, sys, tempfile, threading
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
ours, _ = server.accept()
read, write = os.pipe()
if not os.fork():
    os.close(write)
    os.read(read, 1)  # until the parent ends
    os._exit(0)
size = 20_000_000
def discard():
    left = size
    while left: left -= client.recv_into(memoryview(bytearray(1 << 20)))
reader = threading.Thread(target=discard); reader.start()
file = tempfile.TemporaryFile(); file.truncate(size)
sent = os.sendfile(ours.fileno(), file.fileno(), 0, size) if sys.argv[1] == "sendfile" else ours.send(bytes(size))
assert sent == size, sent
reader.join()
"""


@pytest.mark.parametrize("way", ["send", "sendfile"])
def test_a_call_beyond_the_kernels_room_is_demoted_though_a_fork_shares_the_socket(run_dir, way):
    put_policy(run_dir, policy())
    env = environment(run_dir, QCLIMB_LOG="stderr")
    done = subprocess.run([sys.executable, "-c", FORKED, way], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    marks = [(int(at), int(dscp)) for dscp, at in re.findall(r" dscp=(\d+) at=(\d+)", done.stderr)]
    assert_demoted([(0, DSCP[0]), *(mark for mark in marks if mark[0])])
    assert marks[-1][1] == DSCP[-1]


HANDED_ON = """
import os, socket, sys
SAYS = 'import socket, sys; print(socket.socket(fileno=int(sys.argv[1])).getsockopt(socket.IPPROTO_IP, socket.IP_TOS))'
TAKES = '''import socket, sys
_, (number,), _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 1, 1)
print(socket.socket(fileno=number).getsockopt(socket.IPPROTO_IP, socket.IP_TOS))'''
def run(code, number):
    os.execve(sys.executable, [sys.executable, "-c", code, str(number)], {})
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
ours, _ = server.accept()
if sys.argv[2] == "used":
    ours.send(bytes(100_000))
way = sys.argv[1]
if way == "inetd":
    if not os.fork():
        os.dup2(ours.fileno(), 0)
        run(SAYS, 0)
elif way == "exec":
    ours.set_inheritable(True)
    run(SAYS, ours.fileno())
else:
    here, there = socket.socketpair()
    if not os.fork():
        there.set_inheritable(True)
        run(TAKES, there.fileno())
    socket.send_fds(here, [b"x"], [ours.fileno()])
os.wait()
"""


@pytest.mark.parametrize("use", ["fresh", "used"])
@pytest.mark.parametrize("way", ["inetd", "exec", "passed"])
def test_a_connection_that_another_program_gets_has_no_mark_of_ours(run_dir, way, use):
    put_policy(run_dir, policy())
    words = [sys.executable, "-c", HANDED_ON, way, use]
    done = subprocess.run(words, env=environment(run_dir), capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("0", "")


MULTIPATH = """
#define _GNU_SOURCE
#include <dlfcn.h>
int socket(int family, int type, int protocol)
{
	return ((int (*)(int, int, int))dlsym(RTLD_NEXT, "socket"))(family, type, protocol ? protocol : 262);
}
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_socket_that_another_library_makes_multipath_is_not_ours(run_dir, tmp_path, order):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(MULTIPATH)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source, "-ldl"], check=True)
    put_policy(run_dir, policy())
    env = environment(run_dir, QCLIMB_LOG="stderr")
    libraries = env["LD_PRELOAD"].split()
    env["LD_PRELOAD"] = " ".join([inner.as_posix(), *libraries] if order == "before" else [*libraries, str(inner)])
    code = (
        "import socket; client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0)\n"
        "assert client.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == 262\n"
        "server = socket.create_server(('127.0.0.1', 0)); client.connect(server.getsockname()); client.send(bytes(10))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    if "not supported" in done.stderr or "not available" in done.stderr:
        pytest.skip("this kernel has no MPTCP")
    assert done.returncode == 0, done.stderr
    assert " dscp=" not in done.stderr
