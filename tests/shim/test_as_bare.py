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


# What a kernel is asked for that moves every byte at once: the sum of all pieces, and the largest.
ALL_AT_ONCE = """
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <dlfcn.h>
static ssize_t sum(const struct iovec *parts, size_t count)
{
	size_t bytes = 0;
	for (size_t i = 0; i < count; i++) bytes += parts[i].iov_len;
	return bytes < 0x7ffff000 ? bytes : 0x7ffff000;
}
ssize_t send(int fd, const void *bytes, size_t len, int flags) { return sum(&(struct iovec){ 0, len }, 1); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return sum(parts, count); }
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) { return sum(message->msg_iov, message->msg_iovlen); }
ssize_t sendfile64(int fd, int in, off64_t *at, size_t len) { *at += len; return sum(&(struct iovec){ 0, len }, 1); }
"""

LARGE = """
import ctypes, mmap, os, tempfile
libc = ctypes.CDLL(None, use_errno=True)
size = 3 << 30
memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
class Part(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint), ("parts", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("rest", ctypes.c_void_p * 2), ("flags", ctypes.c_int)]
parts = (Part * 2)(Part(at, size // 2), Part(at, size // 2))
message = Message(parts=ctypes.addressof(parts), count=2)
file = tempfile.TemporaryFile(); file.truncate(size)
for name in ("send", "writev", "sendmsg", "sendfile", "write"): getattr(libc, name).restype = ctypes.c_ssize_t
def call(way, fd):
    if way == "send": return libc.send(fd, ctypes.c_void_p(at), ctypes.c_size_t(size), 0)
    if way == "write": return libc.write(fd, ctypes.c_void_p(at), ctypes.c_size_t(size))
    if way == "writev": return libc.writev(fd, parts, 2)
    if way == "sendmsg": return libc.sendmsg(fd, ctypes.byref(message), 0)
    return libc.sendfile(fd, file.fileno(), ctypes.byref(ctypes.c_int64(0)), ctypes.c_size_t(size))
ours, peer = pair()
print(json.dumps([call(way, ours.fileno()) for way in json.loads(sys.argv[1])]))
"""


def test_no_call_moves_more_than_one_of_linux_does(run_dir, tmp_path):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(ALL_AT_ONCE)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source], check=True)
    put_policy(run_dir, policy())
    ways = ["send", "writev", "sendmsg", "sendfile"]
    assert says(run_dir, PAIR + LARGE, json.dumps(ways), preload=[inner]) == [0x7FFFF000] * len(ways)


# Lengths, memory and counts that the kernel checks in a call as a whole: what each says, and what of it arrives.
REFUSED = """
import ctypes, mmap, os, tempfile
libc = ctypes.CDLL(None, use_errno=True)
page, far, top = mmap.PAGESIZE, -4096 & (1 << 64) - 1, (1 << 47) - 4096
libc.mmap.restype = ctypes.c_void_p
base = libc.mmap(None, ctypes.c_size_t(65 * page), 3, 0x22, -1, ctypes.c_long(0))
libc.munmap(ctypes.c_void_p(base + 64 * page), ctypes.c_size_t(page))
class Part(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_len", ctypes.c_uint), ("parts", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("rest", ctypes.c_void_p * 2), ("flags", ctypes.c_int),
                ("done", ctypes.c_uint)]
file = tempfile.TemporaryFile(); file.write(bytes(100_000))
def word(number): return ctypes.c_size_t(number & (1 << 64) - 1)
def message(parts): return Message(parts=ctypes.addressof(parts), count=len(parts))
good = Part(base, 60_000)
bad_parts = [(Part * 2)(good, bad) for bad in (
    Part(far, 10), Part(far, 0), Part(0, 10), Part(0, 0), Part(base, (1 << 64) - 1), Part(base, 1 << 63),
    Part(base, 1 << 62), Part(top, 10), Part(base, 1 << 47))]
lengths = (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 62, 1 << 47
calls = [
    *((lambda fd, n=n: libc.write(fd, ctypes.c_void_p(base), word(n))) for n in lengths),
    *((lambda fd, a=a: libc.write(fd, ctypes.c_void_p(a), word(60_000))) for a in (0, far, top, top - 100)),
    *((lambda fd, p=p: libc.writev(fd, p, 2)) for p in bad_parts),
    *((lambda fd, n=n: libc.writev(fd, bad_parts[3], n)) for n in (0, -1, 1025, -(1 << 31))),
    *((lambda fd, p=p: libc.sendmsg(fd, ctypes.byref(message(p)), 0)) for p in bad_parts),
    *((lambda fd, p=p: libc.sendmmsg(fd, ctypes.byref(message(p)), 1, 0)) for p in bad_parts),
    *((lambda fd, n=n: libc.sendfile(fd, file.fileno(), ctypes.byref(ctypes.c_int64(0)), word(n))) for n in lengths),
    *((lambda fd, a=a: libc.sendfile(fd, file.fileno(), ctypes.byref(ctypes.c_int64(a)), word(60_000)))
      for a in (-1, (1 << 63) - 1, (1 << 63) - 60_000, 10**6)),
    *((lambda fd, n=n: libc.sendfile(fd, file.fileno(), None, word(n))) for n in ((1 << 63) - 1, (1 << 64) - 1)),
]
for name in ("write", "writev", "sendmsg", "sendfile"): getattr(libc, name).restype = ctypes.c_ssize_t
found = []
for call in calls:
    ours, peer = pair(1 << 20)
    result = call(ours.fileno())
    error = ctypes.get_errno() if result < 0 else 0
    ours.close()
    arrived = 0
    while got := len(peer.recv(1 << 20)): arrived += got
    found.append([result, errno.errorcode.get(error), arrived])
    peer.close()
ours, peer = pair()
read, write = os.pipe(); os.write(write, bytes(30_000))
for n in lengths:
    result = libc.splice(read, None, ours.fileno(), None, word(n), 2)
    found.append([result, errno.errorcode.get(ctypes.get_errno()) if result < 0 else None])
print(json.dumps(found))
"""


def test_what_the_kernel_refuses_as_a_whole_sends_nothing(run_dir):
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + REFUSED) == says(run_dir, PAIR + REFUSED, bare=True)


# As far as memory goes, by the kernel's fragments. The error is the call's, not the next one's.
UNMAPPED = """
libc.send.restype = ctypes.c_ssize_t
mapped = 10 * page
libc.munmap(ctypes.c_void_p(base + mapped), ctypes.c_size_t(54 * page))
found = []
for way in ("send", "write"):
    ours, peer = pair(1 << 20)
    at, length = ctypes.c_void_p(base), word(64 * page)
    result = libc.send(ours.fileno(), at, length, 0) if way == "send" else libc.write(ours.fileno(), at, length)
    found.append(0 < result <= mapped or (result, ctypes.get_errno()) == (-1, errno.EFAULT))
    again = libc.send(ours.fileno(), at, word(100), 0)
    ours.shutdown(1)
    arrived = 0
    while got := len(peer.recv(1 << 20)): arrived += got
    found.append([again, arrived - max(result, 0), ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)])
print(json.dumps(found))
"""


def test_memory_that_ends_within_a_call_ends_that_call_and_harms_no_other(run_dir):
    put_policy(run_dir, policy(threshold_bytes=(40_960, 1_000_000, 2_000_000)))  # the mapped bytes
    code = (
        PAIR
        + REFUSED[: REFUSED.index("class Part")]
        + "\ndef word(number): return ctypes.c_size_t(number)\n"
        + UNMAPPED
    )
    assert says(run_dir, code) == says(run_dir, code, bare=True) == [True, [100, 100, 0]] * 2


THREADS = """
ours, peer = pair()
first = threading.Thread(target=ours.send, args=(bytes(60_000),))
first.start()
while not struct.unpack("i", fcntl.ioctl(ours, 0x5411, bytes(4)))[0]: time.sleep(0.001)
second = ours.send(b"x" * 100)
first.join()
ours.close()
got = b"".join(iter(lambda: peer.recv(1 << 16), b""))
print(json.dumps([second, len(got), got.index(b"x")]))
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_threads_write_comes_after_anothers_that_a_bare_kernel_takes_whole(run_dir, mode):
    """However long the policy lets that one wait at a boundary."""
    put_policy(run_dir, policy(mode, threshold_bytes=(10_000, 30_000, 50_000), promote_wait_us=10_000_000))
    assert says(run_dir, PAIR + THREADS) == says(run_dir, PAIR + THREADS, bare=True) == [100, 60_100, 60_000]


CANCELLED = """
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
static int ours;
static char bytes[8000000];
static void *write_all(void *none)
{
	while (write(ours, bytes, sizeof(bytes)) > 0) ;
	return none;
}
int main(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	const int server = socket(AF_INET, SOCK_STREAM, 0), few = 4096;
	int now = 1, before = 0;
	pthread_t thread;
	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
	if (bind(server, (void *)&at, len) || listen(server, 1) || getsockname(server, (void *)&at, &len)) return 1;
	ours = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(ours, (void *)&at, len) || accept(server, 0, 0) < 0) return 1;
	pthread_create(&thread, 0, write_all, 0);
	while (now != before || poll(&(struct pollfd){ ours, POLLOUT, 0 }, 1, 0)) {
		before = now;
		usleep(50000);
		ioctl(ours, TIOCOUTQ, &now);
	}
	pthread_cancel(thread);
	pthread_join(thread, 0);
	return 0;
}
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_thread_whose_write_waits_for_room_can_be_cancelled(run_dir, tmp_path, mode):
    source, program = tmp_path / "cancelled.c", tmp_path / "cancelled"
    source.write_text(CANCELLED)
    subprocess.run(["cc", "-pthread", "-o", program, source], check=True)
    put_policy(run_dir, policy(mode, threshold_bytes=(20_000, 60_000, 150_000), promote_wait_us=100_000))
    env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)}
    subprocess.run([program], env=env, check=True, timeout=60)


SLOW = """
ours, peer = pair()
ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300_000))
def drain():
    while peer.recv(4096): time.sleep(0.002)
threading.Thread(target=drain, daemon=True).start()
print(json.dumps(ours.send(bytes(4_000_000)) < 4_000_000))
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_longest_wait_that_an_application_sets_is_of_the_whole_call(run_dir, mode):
    put_policy(run_dir, policy(mode, threshold_bytes=(20_000, 60_000, 150_000), promote_wait_us=1_000))
    assert says(run_dir, PAIR + SLOW, bare=True) is True
    assert says(run_dir, PAIR + SLOW) is True


FILE_RESET = """
import os, tempfile
file = tempfile.TemporaryFile(); file.truncate(8_000_000)
hits = []
signal.signal(signal.SIGPIPE, lambda *_: hits.append(1))
ours, peer = pair()
def reset():
    poll = select.poll(); poll.register(ours, select.POLLOUT)
    while poll.poll(0): time.sleep(0.01)
    time.sleep(0.05)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
thread = threading.Thread(target=reset)
thread.start()
sent = os.sendfile(ours.fileno(), file.fileno(), 0, 8_000_000)
thread.join()
print(json.dumps([0 < sent < 8_000_000, hits]))
"""


@pytest.mark.parametrize("mode", MODES)
def test_a_sendfile_that_a_reset_ends_raises_no_sigpipe(run_dir, mode):
    put_policy(run_dir, policy(mode, threshold_bytes=(20_000, 60_000, 150_000), promote_wait_us=1_000))
    assert says(run_dir, PAIR + FILE_RESET, bare=True) == [True, []]
    assert says(run_dir, PAIR + FILE_RESET) == [True, []]
