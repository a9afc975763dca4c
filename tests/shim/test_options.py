"""What the library believes of a socket is what the kernel says: options that are refused, reflected or inherited."""

import os
import re
import shutil
import subprocess

import pytest
from stand import DSCP, PYTHON, environment, hostd, policy, put_policy, records_of
from test_as_bare import PAIR, says

REFUSED = """
ours, peer = pair(1 << 20)
ours.send(bytes(100))
refused = []
for words in ((41, 67, 72), (0, 1, None, 4), (6, 25, b""), (1, 8, b""), (6, 999, 1)):
    try: refused.append(ours.setsockopt(*words))
    except OSError as error: refused.append(error.errno)
six = socket.socket(socket.AF_INET6)
try: refused.append(six.setsockopt(41, 67, 300))
except OSError as error: refused.append(error.errno)
print(json.dumps(refused))
ours.send(bytes(60_000))
"""


def test_an_option_that_the_kernel_refuses_changes_nothing(run_dir):
    put_policy(run_dir, policy())
    run = [PYTHON, "-c", PAIR + REFUSED]
    done = subprocess.run(
        run, env=environment(run_dir, QCLIMB_LOG="stderr"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    bare = subprocess.run(run, capture_output=True, text=True, timeout=60)
    assert done.stdout == bare.stdout
    marks = re.findall(r" dscp=(\d+) at=(\d+)", done.stderr)
    assert (str(DSCP[1]), "10000") in marks  # still scheduled


OWN = """
found = []
for tos in (72, 188, 0, 300):
    for priority in (None, -1, 5, 0):
        ours, peer = pair(1 << 20)
        ours.send(bytes(60_000))
        for level, option, value in ((1, 12, priority), (0, 1, tos)):
            try: value is None or ours.setsockopt(level, option, value)
            except OSError as error: found.append(error.errno)
        ours.send(bytes(100))
        found.append([ours.getsockopt(0, 1), ours.getsockopt(1, 12)])
print(json.dumps(found))
"""


def test_what_the_application_sets_is_what_a_bare_kernel_would_have(run_dir):
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + OWN) == says(run_dir, PAIR + OWN, bare=True)


PRIORITY = """
found = []
ours, peer = pair(1 << 20)
for priority in (-1, 5, 0):
    try: ours.setsockopt(1, 12, priority)
    except OSError as error: found.append(error.errno)
    ours.send(bytes(60_000))
    found.append(ours.getsockopt(1, 12))
print(json.dumps(found))
"""


def test_an_applications_so_priority_is_found_again(run_dir):
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + PRIORITY) == says(run_dir, PAIR + PRIORITY, bare=True)


REFLECTED = """
found = []
for family, address, level, option in ((2, "127.0.0.1", 0, 1), (10, "::1", 41, 67), (10, "::ffff:127.0.0.1", 0, 1)):
    server = socket.socket(family)
    server.bind((address, 0)); server.listen()
    for tos in (72, 0):
        client = socket.socket(family)
        client.setsockopt(level, option, tos)
        client.connect(server.getsockname())
        ours, _ = server.accept()
        found.append(ours.getsockopt(level, option))
        ours.send(bytes(100))
        found.append(ours.getsockopt(level, option))
        print("fd", ours.fileno(), file=sys.stderr, flush=True)
        ours.close(); client.close()
print(json.dumps(found))
"""


def test_an_accepted_socket_that_reflects_its_peers_dscp_is_marked_and_shows_the_reflected_one(run_dir):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs root: makes a network namespace")
    put_policy(run_dir, policy())
    inside = 'ip link set lo up && echo 1 >/proc/sys/net/ipv4/tcp_reflect_tos && exec "$@"'
    run = ["unshare", "-n", "sh", "-c", inside, "sh", "env"]
    code = [PYTHON, "-c", PAIR + REFLECTED]
    bare = subprocess.run([*run, *code], capture_output=True, text=True, timeout=60)
    if bare.returncode:
        pytest.skip(f"this kernel does not reflect: {bare.stderr}")
    preload = [f"{name}={value}" for name, value in environment(run_dir, QCLIMB_LOG="stderr").items()]
    done = subprocess.run([*run, *preload, *code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == bare.stdout
    accepted = re.findall(r"^fd (\d+)$", done.stderr, re.MULTILINE)
    marked = re.findall(rf"fd=(\d+) priority=0 dscp={DSCP[0]} at=0", done.stderr)
    assert all(marked.count(fd) >= accepted.count(fd) for fd in accepted)


# No mark of the library's, which asks by libc's syscall().
NO_MARK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number == SYS_setsockopt && b == IPPROTO_IP && c == IP_TOS) {
		errno = EPERM;
		return -1;
	}
	return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
}
"""


def test_a_mark_that_is_refused_is_none(run_dir, tmp_path):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(NO_MARK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source, "-ldl"], check=True)
    put_policy(run_dir, policy())
    with hostd(run_dir) as got:
        says(run_dir, PAIR + "ours, peer = pair(1 << 20); ours.send(bytes(200_000)); print(0)", preload=[inner])
    (record,) = [record for record in records_of(got) if record.size_bytes == 200_000]
    assert (record.demotions, record.last_priority) == (0, 0)


STAMPED = """
import struct
def keys(sock):
    found = []
    poll = select.poll(); poll.register(sock, 0)
    while poll.poll(0 if found else 30_000):
        for level, kind, data in sock.recvmsg(0, 1024, 0x2000)[1]:
            if (level, kind) == (0, 11): found.append(struct.unpack("IBBBBII", data[:16])[6])
    return found
found = []
for how in ("option", "message"):
    ours, peer = pair(1 << 20)
    ours.setsockopt(1, 37, 1 << 4 | 1 << 7 | 1 << 11 | (1 << 1 if how == "option" else 0))
    if how == "option": ours.send(bytes(150_000))
    else: ours.sendmsg([bytes(150_000)], [(1, 37, struct.pack("I", 1 << 1))])
    found.append(keys(ours))
print(json.dumps(found))
"""


def test_a_call_has_as_many_time_stamps_as_a_bare_kernel_gives(run_dir):
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + STAMPED) == says(run_dir, PAIR + STAMPED, bare=True)


# Just before the library's second mark, the application sets a DSCP: as another thread may.
BETWEEN = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	if (number == SYS_setsockopt && b == IPPROTO_IP && c == IP_TOS && *(int *)d >> 2 == 43)
		setsockopt((int)a, IPPROTO_IP, IP_TOS, &(int){ 72 }, sizeof(int));
	return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
}
"""


def test_a_dscp_that_another_thread_sets_while_the_library_marks_stays(run_dir, tmp_path):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(BETWEEN)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source, "-ldl"], check=True)
    put_policy(run_dir, policy())
    code = PAIR + "ours, peer = pair(1 << 20); ours.send(bytes(200_000)); print(ours.getsockopt(0, 1))"
    assert says(run_dir, code, preload=[inner]) == 72


# In the midst of dup(), where the library asks who runs, another thread closes the number.
CLOSED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
int raced, close(int fd);
long syscall(long number, long a, long b, long c, long d, long e, long f)
{
	const int fd = raced;
	if (number == SYS_getpid && fd) {
		raced = 0;
		close(fd);
	}
	return ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, a, b, c, d, e, f);
}
"""

SEPARATE = """
import ctypes
raced = ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1]), "raced")
libc = ctypes.CDLL(None)
for _ in range(3):
    one = libc.socket(2, 1, 0)
    raced.value = one
    two = libc.dup(one)
    assert not raced.value
    libc.close(two)
# Sockets that share what is known of them share what one of them sets.
pairs = [pair(1 << 20) for _ in range(8)]
socks = [ours for ours, _ in pairs]
for number, sock in enumerate(socks):
    sock.setsockopt(1, 12, number % 7)
print(json.dumps([sock.getsockopt(1, 12) for sock in socks]))
"""


def test_a_number_closed_while_it_is_duplicated_leaves_no_two_sockets_one_state(run_dir, tmp_path):
    source, inner = tmp_path / "inner.c", tmp_path / "inner.so"
    source.write_text(CLOSED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", inner, source, "-ldl"], check=True)
    put_policy(run_dir, policy())
    assert says(run_dir, PAIR + SEPARATE, inner, preload=[inner]) == [0, 1, 2, 3, 4, 5, 6, 0]
