"""Programs that start under somebody else's seccomp filter: none is killed or misled for a call of the library's."""

import errno
import subprocess
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import hostd, policy, put_policy, records_of


@pytest.fixture(scope="module")
def filtered(tmp_path_factory, libc):
    if not Path("/proc/sys/kernel/seccomp").exists():
        pytest.skip("this kernel has no seccomp filters")
    folder = tmp_path_factory.mktemp("filtered")
    extra = (
        () if libc.name == "glibc" else ("-idirafter", "/usr/include", "-idirafter", "/usr/include/x86_64-linux-gnu")
    )
    return libc.compiled(folder / f"filtered-{libc.name}", *extra, Path(__file__).with_name("filtered.c"))


def calls_of(filtered):
    return subprocess.run([filtered, "calls"], capture_output=True, text=True, check=True).stdout.split()


def run(libc, filtered, run_dir, answer, *calls):
    """The filter is put on by a program without the library, which it then starts itself with."""
    with_library = libc.environment(run_dir)
    environment = {name: value for name, value in with_library.items() if name != "LD_PRELOAD"}
    environment["BEHIND"] = with_library["LD_PRELOAD"]
    done = subprocess.run(
        [filtered, answer, *calls], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.QCLIMB])
def test_a_filter_from_before_the_start_kills_nobody_for_a_call_of_the_library(libc, filtered, run_dir, mode):
    put_policy(run_dir, policy(mode))
    ended = {call: run(libc, filtered, run_dir, "kill", call) for call in calls_of(filtered)}
    assert {call: end for call, end in ended.items() if end != (0, "")} == {}


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize("optax", [False, True])
def test_a_filter_that_refuses_every_call_of_the_library_costs_no_byte(libc, filtered, run_dir, error, optax):
    put_policy(run_dir, policy(Mode.QCLIMB, optax=optax))
    calls = calls_of(filtered)
    ended = {call: run(libc, filtered, run_dir, str(error), call) for call in calls}
    assert {call: end for call, end in ended.items() if end != (0, "")} == {}
    assert run(libc, filtered, run_dir, str(error), *calls) == (0, "")


@pytest.mark.parametrize(("call", "sizes"), [("bpf", [300_000]), ("ioctl", [])])
def test_under_a_filter_flows_are_scheduled_where_it_allows_what_that_takes(libc, filtered, run_dir, call, sizes):
    put_policy(run_dir, policy(Mode.PIAS))
    with hostd(run_dir) as got:
        assert run(libc, filtered, run_dir, "kill", call) == (0, "")
    assert [record.size_bytes for record in records_of(got) if record.role == 0] == sizes
