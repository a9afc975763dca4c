"""OPTAX's line: who switches it on, who stands in it with whom, and the memory that a host's processes share."""

import ctypes
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from qclimb.policy import Mode
from receiving import PORT, SLOW, TRIES, line_of, needs_root, segments
from stand import LIBRARY, policy, put_policy, wait_until

pytestmark = needs_root


@pytest.mark.parametrize("setting", [None, "", "off", "0", "-5", "100x"])
def test_it_is_off_unless_the_environment_says_otherwise(host, setting):
    bare = host.says(host.start("buffers", library=False, port=PORT, size=10_000))
    ours = host.says(host.start("buffers", setting, port=PORT, size=10_000))
    assert ours["first"] == bare["first"]
    assert host.logged("optax") == 0


@pytest.mark.parametrize(
    ("mode", "flag", "is_on"), [("pias", True, True), ("pias", False, False), ("observe", True, False)]
)
def test_the_operators_policy_switches_it_on(host, mode, flag, is_on):
    put_policy(host.path / "managed", policy(Mode(mode), optax=flag))
    setting = None if is_on else "1000"  # the environment decides nothing on a managed host
    bare = host.says(host.start("buffers", library=False, port=PORT, size=10_000))
    ours = host.says(host.start("buffers", setting, run="managed", port=PORT, size=10_000))
    assert (ours["first"] < bare["first"]) == is_on


def beside_one_held_back(host, tmp_path, task):
    """What a process of `task` logs of reads withheld, once one of no task's had some behind the same head."""
    words = {"port": PORT, "mode": "threads", "flows": 2, "size": 20_000}
    for n in range(TRIES):
        logs = tmp_path / f"own{n}", tmp_path / f"other{n}"
        assert host.says(host.start("fetch", SLOW, log=logs[0], task=task, **words)) == {"whole": [True] * 2}
        assert host.says(host.start("fetch", SLOW, log=logs[1], **words)) == {"whole": [True] * 2}
        own, other = (log.read_text().count("withheld") for log in logs)
        if other:
            return own
    pytest.fail(f"{TRIES} tasks behind a head, and none was held back")


def test_processes_of_one_task_stand_in_one_place(host, tmp_path):
    host.ready("head", SLOW, port=PORT, task="job")
    assert beside_one_held_back(host, tmp_path, "job") == 0


def test_no_process_of_a_task_that_has_a_large_flow_is_held_back(host, tmp_path):
    host.ready("beside", SLOW, port=PORT, task="job", go=str(tmp_path / "never"), pause=0.01)
    host.ready("head", SLOW, port=PORT)
    assert beside_one_held_back(host, tmp_path, "job") == 0


def test_a_line_full_of_nonsense_holds_nobody_for_ever(host):
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    with line_of(host) as number:
        at = libc.shmat(number, None, 0)
        behind = host.start("fetch", SLOW, port=PORT, mode="epoll-et", flows=2, size=20_000)
        end = time.monotonic() + 1
        while time.monotonic() < end and behind.poll() is None:
            ctypes.memmove(at + 8, os.urandom(4096), 4096)  # all but the mark of its version
            time.sleep(0.001)
        assert host.says(behind) == {"whole": [True] * 2}


def test_a_line_that_was_removed_is_made_anew(host, tmp_path):
    go = tmp_path / "go"
    with line_of(host) as number:
        subprocess.run(["ipcrm", "-m", str(number)], check=True)
        behind = host.start("fetch", SLOW, port=PORT, mode="poll", flows=2, size=300_000, after=str(go))
        wait_until(lambda: set(segments(host)) - {number})
        go.touch()
        assert host.says(behind) == {"whole": [True] * 2}


def test_a_line_that_others_may_write_is_not_used(host):
    libc = ctypes.CDLL(None)
    with line_of(host) as number:
        about = (ctypes.c_char * 256)()
        assert libc.shmctl(number, 2, about) == 0  # IPC_STAT
        mode = ctypes.c_uint.from_buffer(about, 20)
        assert mode.value & 0o777 == 0o600
        mode.value |= 0o066
        assert libc.shmctl(number, 1, about) == 0  # IPC_SET
        behind = host.start("fetch", SLOW, port=PORT, mode="threads", flows=2, size=300_000)
        assert host.says(behind) == {"whole": [True] * 2}
        assert host.logged("no memory for the line: nobody is held back") == 1
        assert host.logged("withheld") == 0


def test_the_last_process_takes_the_line_along(host, tmp_path):
    go = tmp_path / "go"
    task = host.start("fetch", SLOW, port=PORT, mode="threads", flows=2, size=300_000, after=str(go))
    wait_until(lambda: segments(host))
    go.touch()
    host.says(task)
    assert segments(host) == []


SECURE = r"""
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int one = socket(AF_INET, SOCK_STREAM, 0), bytes = 0;
	socklen_t len = sizeof(to);

	listen(one, 1);
	syscall(SYS_getsockopt, one, SOL_SOCKET, SO_RCVBUF, &bytes, &(socklen_t){ sizeof(bytes) });
	(void)len;
	printf("{\"rcvbuf\": %d, \"user\": %d}\n", bytes, (int)geteuid());
	return 0;
}
"""


def test_a_setuid_program_ignores_the_setting(tmp_path_factory):
    place = Path("/var/tmp") / f"qcox{os.getpid()}"
    place.mkdir(mode=0o755)
    try:
        library, program = place / "libqclimb.so", place / "secure"
        shutil.copy(LIBRARY, library)
        library.chmod(0o755)
        (place / "secure.c").write_text(SECURE)
        link = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{place}"]
        subprocess.run(["cc", "-o", program, place / "secure.c", *link], check=True)

        def outcome(mode):
            program.chmod(mode)
            argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program]
            env = {"QCLIMB_OPTAX": "on", "QCLIMB_RUN": str(place / "absent")}
            return json.loads(subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout)

        small, secure = outcome(0o755), outcome(0o4755)
        if secure["user"] != 0:
            pytest.skip("a setuid copy does not run with more rights here")
        assert small["rcvbuf"] < secure["rcvbuf"]
    finally:
        shutil.rmtree(place)
