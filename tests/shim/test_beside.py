"""A write that waits, and what somebody else does beside it: as without the library, whatever it waits for."""

import os
import subprocess
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import ROOT, hostd, policy, put_policy, records_of

FIRST = 150_000
"""Past what the peer's window lets in, so that the library has something to wait for there."""
TRIES = 5


@pytest.fixture(scope="module")
def beside(tmp_path_factory, libc):
    source = Path(__file__).with_name("beside.c")
    return libc.compiled(tmp_path_factory.mktemp("beside") / "beside", "-I", ROOT / "hostlib" / "include", source)


@pytest.fixture
def says(beside, libc, run_dir):
    def says(how, threshold_bytes=(FIRST, 8_000_000, 9_000_000), bare=False, **changes):
        put_policy(run_dir, policy(threshold_bytes=threshold_bytes, **changes))
        more = {"LD_PRELOAD": ""} if bare else {"QCLIMB_LOG": str(run_dir / "log")}
        argv = [beside, how]
        done = subprocess.run(argv, env=libc.environment(run_dir, **more), capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split("\n")[:-1]

    return says


@pytest.fixture
def says_soon(says):
    """The same of a call that must not wait: a machine that is busy makes some tries late, who waits makes all."""

    def says_soon(*words, **changes):
        for _ in range(TRIES):
            said = says(*words, **changes)
            if not said[0].endswith((" late", " waited")):
                break
        return said

    return says_soon


@pytest.mark.parametrize(
    ("how", "result"), [("dontwait", "-1 EAGAIN"), ("timeout", "-1 EAGAIN"), ("alarm", "-1 EINTR")]
)
def test_who_writes_beside_a_blocked_writer_waits_no_longer_than_the_kernel_has_him_wait(says_soon, how, result):
    assert says_soon(how, bare=True) == [result]
    assert says_soon(how, threshold_bytes=(1_000_000, 8_000_000, 9_000_000)) == [result]


def test_a_wait_at_a_boundary_is_no_longer_than_the_applications_own_time_out(says_soon):
    thresholds = (120_000, 150_000, 200_000)
    assert says_soon("own timeout", bare=True) == ["short"]
    assert says_soon("own timeout", thresholds, promote_wait_us=1_000_000) == ["short"]


def test_signals_make_no_wait_at_a_boundary_longer(says):
    assert says("signals", bare=True) == ["100000"]
    assert says("signals", (300_000, 8_000_000, 9_000_000), promote_wait_us=100_000) == ["100000"]


def test_a_writer_that_waits_at_a_boundary_ends_when_its_socket_is_shut_down(says):
    """And what the next one is told has its signal."""
    assert says("shutdown") == ["-1 EPIPE 1"]


def test_an_option_that_is_set_while_a_writer_waits_stays(says):
    expected = ["0 0", "3000000 - 3000000", "1 77777"]
    assert says("nodelay", bare=True) == expected
    assert says("nodelay") == expected


def test_a_send_buffer_that_is_set_while_a_writer_waits_stays(says):
    assert says("sndbuf", bare=True) == ["large", "300000"]
    thresholds = (50_000, 400_000, 1_000_000)
    assert says("sndbuf", thresholds, mode=Mode.QCLIMB) == ["large", "300000"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the buffer is forced past the host's bound")
def test_a_send_buffer_that_was_forced_stays(says):
    assert says("forced sndbuf", bare=True) == ["large", "400000000"]
    thresholds = (50_000, 400_000, 1_000_000)
    assert says("forced sndbuf", thresholds, mode=Mode.QCLIMB) == ["large", "400000000"]


@pytest.mark.parametrize("how", ["unshared", "unshared close"])
def test_what_a_thread_closes_in_a_table_of_its_own_takes_nothing_from_a_writer(says, how):
    assert says(how) == ["3000000 - 3000000"]


def test_a_write_goes_on_while_the_library_withdraws(says):
    assert says("seal", (50_000, 100_000, 200_000)) == ["400000 -"]


def test_what_a_refused_write_lent_is_given_back_when_the_process_closes_its_descriptor(says):
    """Another process may go on with the connection."""
    assert says("handed", bare=True) == ["0 0"]
    assert says("handed") == ["0 0"]


def test_a_connection_in_the_place_of_one_that_was_closed_under_a_writer_is_scheduled(says, run_dir):
    with hostd(run_dir) as got:
        says("slot", (4_000_000, 8_000_000, 9_000_000))
    assert (6_000_000, 1) in [(record.size_bytes, record.last_priority) for record in records_of(got)]
