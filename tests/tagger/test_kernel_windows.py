"""Receive windows in the kernel mode: of programs that know nothing of qclimb, the task that came first is served."""

import re
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hosts import PORTS
from qclimb.policy import Mode
from scoped import PROGRAMS, kernel_mode
from stand import B, policy, wait_until

from hostlib.hostd.kernel import remove

pytestmark = pytest.mark.fabric
FLOW_BYTES = 1_000_000
FIRST, SECOND = 2, 8
"""Flows of the two tasks: where the first one ends, the second one still has much to come."""
HELD_BYTES = 2_048
"""Above one segment, below two."""


def optax(**changes):
    return policy(Mode.PIAS, optax=True, small_coflow_bytes=4_000_000, **changes)


def ss(netns, *options):
    argv = ["ip", "netns", "exec", netns, "ss", "-tnOH", *options, "state", "established"]
    return subprocess.check_output(argv, text=True).splitlines()


def windows(a, b, pid):
    """(bytes, the scale's bits) of each window that a process of `a` offers, as its sender has it."""
    ours = {line.split()[2].rsplit(":")[-1] for line in ss(a.host.netns, "-p") if f"pid={pid}," in line}
    theirs = [line for line in ss(b.netns, "-i") if line.split()[3].rsplit(":")[-1] in ours]
    found = [re.search(r"wscale:(\d+),.* snd_wnd:(\d+)", line) for line in theirs]
    return [(int(match[2]), int(match[1])) for match in found if match]


@contextmanager
def two_tasks(a, b, *, is_in=True):
    """Two processes of `a` that take flows from `b`: the second one has begun after the first, and both get all."""
    port = next(PORTS)
    giver = b.start([sys.executable, PROGRAMS / "give.py", B, str(port), str(FLOW_BYTES)], LD_PRELOAD="")
    takers = []
    try:
        assert giver.stdout.readline() == "ready\n"
        for flows in (FIRST, SECOND):
            takers.append(a.start(sys.executable, PROGRAMS / "take.py", B, str(port), str(flows), is_in=is_in))
            assert takers[-1].stdout.readline() == "begun\n"
        yield takers
        assert [int(taker.communicate(timeout=60)[0]) for taker in takers[-1:]] == [SECOND * FLOW_BYTES]
    finally:
        for program in (giver, *takers):
            program.kill()
            program.communicate()


def is_held(found):
    return bool(found) and all(0 < window <= HELD_BYTES for window, _ in found)


def is_free(found):
    return bool(found) and all(window > HELD_BYTES for window, _ in found)


def test_a_later_task_has_the_least_window_until_the_first_one_is_done(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1]) as (first, second):
        wait_until(lambda: is_held(windows(a, pair[1], second.pid)))
        assert not is_held(windows(a, pair[1], first.pid))
        assert first.communicate(timeout=60)[0] == f"{FIRST * FLOW_BYTES}\n"
        seen = []
        wait_until(lambda: seen.append(windows(a, pair[1], second.pid)) or is_free(seen[-1]))
        assert all(scale for _, scale in seen[-1])


def never_held(a, b, tasks):
    while tasks[1].poll() is None:
        found = windows(a, b, tasks[1].pid)
        if len(found) == SECOND:
            assert not any(window <= HELD_BYTES for window, _ in found), found
            return True
    return False


def test_nobody_is_held_back_where_the_policy_does_not_ask_for_it(pair):
    with kernel_mode(pair[0], policy()) as a, two_tasks(a, pair[1]) as tasks:
        assert never_held(a, pair[1], tasks)


def test_nor_is_who_lives_outside_the_cgroup(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1], is_in=False) as tasks:
        assert never_held(a, pair[1], tasks)


def test_a_task_with_a_large_flow_is_not_held_back(pair):
    large = policy(Mode.PIAS, optax=True, small_coflow_bytes=20_000)
    with kernel_mode(pair[0], large) as a, two_tasks(a, pair[1]) as (_, second):
        wait_until(lambda: is_free(windows(a, pair[1], second.pid)))


def test_windows_are_the_kernels_again_once_the_policy_no_longer_asks(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1]) as (_, second):
        wait_until(lambda: is_held(windows(a, pair[1], second.pid)))
        a.follow(policy(generation=2))
        wait_until(lambda: is_free(windows(a, pair[1], second.pid)))


def test_windows_are_the_kernels_again_once_the_mode_is_taken_away(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1]) as (_, second):
        wait_until(lambda: is_held(windows(a, pair[1], second.pid)))
        assert remove(a.host.run_dir / "bpf")
        wait_until(lambda: is_free(windows(a, pair[1], second.pid)))
