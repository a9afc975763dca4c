"""Programs that restrict their own system calls (seccomp): none is killed for a call of the library's."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from qclimb.policy import Mode
from qclimb.record import PARTLY_UNOBSERVED
from stand import hostd, policy, put_policy, records_of

SYS_KCMP = {"x86_64": 312, "aarch64": 272}.get(os.uname().machine)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory, libc):
    if Path("/proc/sys/kernel/seccomp").exists() is False:
        pytest.skip("this kernel has no seccomp filters")
    folder = tmp_path_factory.mktemp("sealed")
    extra = (
        () if libc.name == "glibc" else ("-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu")
    )
    return libc.compiled(folder / f"sealed-{libc.name}", *extra, Path(__file__).with_name("sealed.c"))


def run(libc, sealed, run_dir, how):
    return subprocess.run([sealed, how], env=libc.environment(run_dir), capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
@pytest.mark.parametrize("how", ["prctl", "seccomp", "strict", "clone"])
def test_a_program_that_seals_itself_is_not_killed_for_the_library(libc, sealed, run_dir, how, mode):
    put_policy(run_dir, policy(mode))
    done = run(libc, sealed, run_dir, how)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_seals_itself_leaves_the_line_of_tasks(libc, sealed, run_dir):
    put_policy(run_dir, policy(Mode.PIAS, optax=True))
    done = run(libc, sealed, run_dir, "seccomp")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_was_sent_before_a_seal_is_recorded(libc, sealed, run_dir):
    put_policy(run_dir, policy(Mode.PIAS))
    with hostd(run_dir) as got:
        assert run(libc, sealed, run_dir, "seccomp").returncode == 0
    assert [record.size_bytes for record in records_of(got) if record.role == 1] == [60_000]


def test_a_vfork_child_that_seals_itself_leaves_its_parent_as_it_was(libc, sealed, run_dir):
    here = os.getpid()
    if ctypes.CDLL(None).syscall(SYS_KCMP, here, here, 1, 0, 0):
        pytest.skip("this kernel or its settings lack kcmp")
    put_policy(run_dir, policy(Mode.PIAS))
    done = run(libc, sealed, run_dir, "vfork")
    assert (done.returncode, done.stderr) == (0, "")


CLOSES_ITSELF = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
server = socket.create_server(("127.0.0.1", 0))
for size in (3_000, 50_000):
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    client.sendall(bytes(size))
    left = size
    while left:
        left -= len(peer.recv(65536))
    assert libc.syscall(3, client.detach()) == 0
    peer.close()
assert libc.syscall(3, -1) == -1 and ctypes.get_errno() == 9
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls")
def test_a_descriptor_that_is_closed_by_syscall_ends_its_flow_as_by_close(run_dir, libc):
    if libc.name != "glibc":
        pytest.skip("Python here runs on glibc")
    put_policy(run_dir, policy(Mode.PIAS))
    with hostd(run_dir) as got:
        subprocess.run([sys.executable, "-c", CLOSES_ITSELF], env=libc.environment(run_dir), check=True, timeout=60)
    sent = [record for record in records_of(got) if record.role == 0]
    assert [record.size_bytes for record in sent] == [3_000, 50_000]
    assert not any(record.flags & PARTLY_UNOBSERVED for record in sent)


# What an allocator may do that starts inside a dlsym() which finds nothing: glibc allocates its message then.
STARTS_LATE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
void *dlsym(void *handle, const char *name)
{
	void *(*next)(void *, const char *) = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
	if (!next)
		next = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!strcmp(name, "epoll_pwait2") || !strcmp(name, "closefrom")) {
		char byte;
		(void)!read(-1, &byte, 1);
		return NULL;
	}
	return next(handle, name);
}
"""


def test_an_allocator_that_reads_a_file_when_it_starts_finds_its_read(tmp_path, run_dir, libc):
    if libc.name != "glibc":
        pytest.skip("dlvsym is glibc's")
    (tmp_path / "late.c").write_text(STARTS_LATE)
    late = tmp_path / "late.so"
    subprocess.run([*libc.cc, "-shared", "-fPIC", "-o", late, tmp_path / "late.c"], check=True)
    put_policy(run_dir, policy(Mode.PIAS))
    environment = libc.environment(run_dir, LD_PRELOAD=f"{libc.library} {late}")
    assert subprocess.run(["true"], env=environment, timeout=60).returncode == 0
