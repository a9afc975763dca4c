"""What a split write meets (a reset, a signal, a full socket), the application sees as it would without the library."""

import errno
import json
import re
import select
import subprocess

import pytest
from qclimb.policy import Mode
from stand import DSCP, LIBRARY, PYTHON, assert_demoted, policy, put_policy

MODES = (Mode.PIAS, Mode.QCLIMB)


def says(run_dir, code, *words, bare=False, preload=()):
    """What a program of one process says, as JSON."""
    libraries = [str(name) for name in ([] if bare else [LIBRARY, *preload])]
    env = {"LD_PRELOAD": " ".join(libraries), "QCLIMB_RUN": str(run_dir)}
    done = subprocess.run([PYTHON, "-c", code, *map(str, words)], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PAIR = """
import errno, fcntl, json, select, signal, socket, struct, subprocess, sys, threading, time
def pair(rcvbuf=4096):
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    server.bind(("127.0.0.1", 0))
    server.listen()
    ours = socket.create_connection(server.getsockname())
    return ours, server.accept()[0]
def unsent(sock):
    return struct.unpack("i", fcntl.ioctl(sock, 0x894B, bytes(4)))[0]
"""

RESET = """
size, how, ask = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ours, peer = pair()
ours.setblocking(how == "blocking")
def reset():
    while not unsent(ours): time.sleep(0.001)
    time.sleep(0.02)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
thread = threading.Thread(target=reset)
thread.start()
sent = ours.send(bytes(size))
thread.join()
if ask == "recv":
    try: found = len(ours.recv(1))
    except OSError as error: found = error.errno
elif ask == "SO_ERROR":
    found = ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
else:
    poll = select.poll(); poll.register(ours, select.POLLIN)
    ((_, found),) = poll.poll(10_000)
    found &= select.POLLERR
print(json.dumps([sent, found]))
"""


@pytest.mark.parametrize("ask", ["recv", "SO_ERROR", "poll"])
@pytest.mark.parametrize("how", ["blocking", "non-blocking"])
@pytest.mark.parametrize("size", [60_000, 3_000_000])
@pytest.mark.parametrize("mode", MODES)
def test_a_reset_while_a_split_write_waits_is_the_kernels_to_tell(run_dir, mode, size, how, ask):
    put_policy(run_dir, policy(mode, threshold_bytes=(40_000, 1_000_000, 2_000_000)))
    sent, found = says(run_dir, PAIR + RESET, size, how, ask)
    assert 0 < sent <= size
    assert found == (select.POLLERR if ask == "poll" else errno.ECONNRESET)


# The second piece of a split write meets an error: the kernel tells it once, and has told it to us.
CUT_OFF = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	if (flags & MSG_NOSIGNAL) {
		shutdown(fd, SHUT_RDWR);
		errno = ECONNRESET;
		return -1;
	}
	return ((ssize_t (*)(int, const void *, size_t, int))dlsym(RTLD_NEXT, "send"))(fd, bytes, len, flags);
}
"""

CUT_OFF_ASKED = """
ours, peer = pair(1 << 20)
sent, found = ours.send(bytes(30_000)), []
for _ in range(2):
    if sys.argv[1] == "SO_ERROR":
        found.append(ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    else:
        try: found.append(len(ours.recv(1)))
        except OSError as error: found.append(error.errno)
print(json.dumps([sent, *found]))
"""


@pytest.mark.parametrize("ask", ["recv", "SO_ERROR"])
def test_an_error_that_only_a_later_piece_was_told_is_told_once_more(run_dir, tmp_path, ask):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(CUT_OFF)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source, "-ldl"], check=True)
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + CUT_OFF_ASKED, ask, preload=[inner]) == [10_000, errno.ECONNRESET, 0]


READER = """
import socket, sys, time
port, size, turns = map(int, sys.argv[1:])
peer = socket.socket()
peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
peer.connect(("127.0.0.1", port))
for _ in range(turns):
    got = 0
    while got < size:
        got += len(peer.recv(min(4096, size - got)))
        time.sleep(0.0002)
    peer.send(b"x")
"""

SIGNALS = f"""
READER = {READER!r}
restarts, size, turns = sys.argv[1] == "restarts", int(sys.argv[2]), int(sys.argv[3])
server = socket.create_server(("127.0.0.1", 0))
subprocess.Popen([sys.executable, "-c", READER, *map(str, (server.getsockname()[1], size, turns))])
ours, _ = server.accept()
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, not restarts)
whole = 0
for _ in range(turns):
    signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
    sent = ours.send(bytes(size))
    signal.setitimer(signal.ITIMER_REAL, 0)
    whole += sent == size
    ours.sendall(bytes(size - sent))
    ours.recv(1)
print(json.dumps(whole))
"""


@pytest.mark.parametrize("restarts", ["restarts", "interrupts"])
@pytest.mark.parametrize("mode", MODES)
def test_a_signal_cuts_no_write_that_a_bare_kernel_takes_whole(run_dir, mode, restarts):
    put_policy(run_dir, policy(mode, threshold_bytes=(20_000, 40_000, 60_000)))
    assert says(run_dir, PAIR + SIGNALS, restarts, 64_000, 10, bare=True) == 10
    assert says(run_dir, PAIR + SIGNALS, restarts, 64_000, 10) == 10


def test_with_sa_restart_a_signal_makes_no_boundary_early(run_dir):
    put_policy(run_dir, policy(threshold_bytes=(20_000, 40_000, 60_000)))
    log = run_dir / "log"
    code = PAIR + SIGNALS
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir), "QCLIMB_LOG": str(log)}
    done = subprocess.run([PYTHON, "-c", code, "restarts", "64000", "1"], env=env, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    marked = [(int(at), int(dscp)) for dscp, at in re.findall(r" dscp=(\d+) at=(\d+)", log.read_text())]
    sunk = [(at, mark) for at, mark in marked if 0 < at < 64_000]
    assert_demoted([(0, DSCP[0]), *sunk], (20_000, 40_000, 60_000))
    assert sunk


WHOLE = """
ours, peer = pair()
ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
ours.setblocking(False)
if sys.argv[2] == "refused":
    try:
        while filled := ours.send(bytes(65536)): pass
    except BlockingIOError:
        pass
    peer.settimeout(1)
    try:
        while peer.recv(1 << 20): pass
    except TimeoutError:
        pass
    peer.send(b"x"); ours.setblocking(True); ours.recv(1); ours.setblocking(False)
short = []
for size in json.loads(sys.argv[1]):
    try: sent = ours.send(bytes(size))
    except BlockingIOError: sent = 0
    if sent < size: short.append([size, sent])
print(json.dumps(short))
"""


@pytest.mark.parametrize("before", ["fresh", "refused"])
@pytest.mark.parametrize("pieces", [[700] * 40, [9_000] * 5, [16_384] * 3, [44_000]], ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_a_write_that_a_bare_kernel_takes_whole_at_once_is_taken_whole(run_dir, mode, pieces, before):
    """Whatever was refused on that connection before: a producer's message must not come short."""
    put_policy(run_dir, policy(mode, threshold_bytes=(1_000, 3_000, 30_000)))
    assert says(run_dir, PAIR + WHOLE, json.dumps(pieces), before, bare=True) == []
    assert says(run_dir, PAIR + WHOLE, json.dumps(pieces), before) == []


EXEC = (
    PAIR
    + """
import ctypes, os
way = sys.argv[1]
NEXT = '''
import json, socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
asked = (socket.IPPROTO_TCP, 25), (socket.IPPROTO_TCP, 3), (socket.IPPROTO_TCP, 1), (1, 72)
print(json.dumps([*(sock.getsockopt(*one) for one in asked), sock.getsockopt(1, 7) > 100_000, sys.argv[2:]]))
'''
ours, peer = pair()
if way == "in another thread's wait":
    threading.Thread(target=ours.send, args=(bytes(3_000_000),), daemon=True).start()
    while unsent(ours) < 5_000: time.sleep(0.001)
    time.sleep(0.1)
    way = "execve"
else:
    ours.setblocking(False)
    try:
        while True: ours.send(bytes(20_000))
    except BlockingIOError: pass
ours.set_inheritable(True)
libc = ctypes.CDLL(None)
words = [sys.executable, "-c", NEXT, str(ours.fileno()), "a word", "another"]
words = [word.encode() for word in words]
list_ = (ctypes.c_char_p * (len(words) + 1))(*words, None)
alone = (ctypes.c_char_p * 2)(b"ALONE=1", None)
path = words[0]
argv = tuple(ctypes.c_char_p(word) for word in words)
if way == "execve": libc.execve(path, list_, alone)
if way == "execv": libc.execv(path, list_)
if way == "execvp": libc.execvp(path, list_)
if way == "execvpe": libc.execvpe(path, list_, alone)
if way == "fexecve": libc.fexecve(os.open(path, os.O_RDONLY), list_, alone)
if way == "execveat": libc.execveat(-100, path, list_, alone, 0)
if way == "execl": libc.execl(path, *argv, None)
if way == "execlp": libc.execlp(path, *argv, None)
if way == "execle": libc.execle(path, *argv, None, alone)
"""
)


@pytest.mark.parametrize(
    "way",
    [
        *("execve", "execv", "execvp", "execvpe", "fexecve", "execveat", "execl", "execlp", "execle"),
        "in another thread's wait",
    ],
)
def test_the_program_that_exec_begins_finds_no_option_lent(run_dir, way):
    put_policy(run_dir, policy(threshold_bytes=(8_000, 100_000, 200_000), promote_wait_us=10_000_000))
    assert says(run_dir, EXEC, way) == says(run_dir, EXEC, way, bare=True)
