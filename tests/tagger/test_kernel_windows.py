"""Receive windows in the kernel mode: of programs that know nothing of qclimb, the task that came first is served.

Flows go on until they are told to end, for a slow machine may look late, over a link that it can fill.
"""

import re
import subprocess
import sys
from contextlib import contextmanager
from functools import cached_property

import pytest
from hosts import PORTS
from qclimb.policy import Mode
from scoped import PROGRAMS, kernel_mode
from stand import B, policy, wait_until

from hostlib.hostd.kernel import remove

pytestmark = pytest.mark.fabric
BENCH = {"rate_mbit": 10}
FIRST, SECOND = 2, 4
"""Flows of the two tasks."""
HELD_BYTES = 2_048
"""Above one segment, below two."""


def optax(**changes):
    return policy(Mode.PIAS, optax=True, small_coflow_bytes=1 << 40, **changes)


def ss(netns, *options):
    argv = ["ip", "netns", "exec", netns, "ss", "-tnOH", *options, "state", "established"]
    return subprocess.check_output(argv, text=True).splitlines()


def windows(a, b, pid):
    """(bytes, the scale's bits) of each window that a process of `a` offers, as its sender has it, by port."""
    ours = {line.split()[2].rsplit(":")[-1] for line in ss(a.host.netns, "-p") if f"pid={pid}," in line}
    theirs = [line for line in ss(b.netns, "-i") if line.split()[3].rsplit(":")[-1] in ours]
    found = {line.split()[3].rsplit(":")[-1]: re.search(r"wscale:(\d+),.* snd_wnd:(\d+)", line) for line in theirs}
    return {port: (int(match[2]), int(match[1])) for port, match in found.items() if match}


class Task:
    """A process of `a` that takes so many flows, which have begun."""

    def __init__(self, a, port, flows, is_in):
        argv = [sys.executable, PROGRAMS / "take.py", B, str(port), str(flows)]
        self.program = a.start(*argv, is_in=is_in, stdin=subprocess.PIPE)
        assert self.program.stdout.readline() == "begun\n"
        self.pid = self.program.pid

    @cached_property
    def total(self):
        """Ends them: the bytes that came."""
        return int(self.program.communicate("\n", timeout=60)[0])


@contextmanager
def two_tasks(a, b, *, is_in=True):
    """The second one has begun after the first, and both get all that is sent."""
    port = next(PORTS)
    giver = b.start([sys.executable, PROGRAMS / "give.py", B, str(port)], LD_PRELOAD="")
    tasks = []
    try:
        assert giver.stdout.readline() == "ready\n"
        for flows in (FIRST, SECOND):
            tasks.append(Task(a, port, flows, is_in))
        yield tasks
        got = sum(task.total for task in tasks)
        assert got == sum(int(giver.stdout.readline()) for _ in range(FIRST + SECOND))
    finally:
        for program in (giver, *(task.program for task in tasks)):
            program.kill()
            program.communicate()


def is_held(found):
    return bool(found) and all(0 < window <= HELD_BYTES for window, _ in found.values())


def is_free(found):
    return bool(found) and all(window > HELD_BYTES for window, _ in found.values())


def wait_until_held(a, b, task, flows=SECOND):
    """Each of its flows, at one look or another: where the task before stands still for 20 ms, it goes on."""
    held = {}

    def look():
        held.update({port: told for port, told in windows(a, b, task.pid).items() if is_held({port: told})})
        return len(held) == flows

    wait_until(look)


def test_a_later_task_has_the_least_window_until_the_first_one_is_done(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1]) as (first, second):
        wait_until_held(a, pair[1], second)
        assert not is_held(windows(a, pair[1], first.pid))
        assert first.total
        seen = []
        wait_until(lambda: seen.append(windows(a, pair[1], second.pid)) or is_free(seen[-1]))
        assert all(scale for _, scale in seen[-1].values())


def never_held(a, b, tasks):
    seen = []
    wait_until(lambda: seen.append(windows(a, b, tasks[1].pid)) or len(seen[-1]) == SECOND)
    return is_free(seen[-1])


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
        wait_until_held(a, pair[1], second)
        a.follow(policy(generation=2))
        wait_until(lambda: is_free(windows(a, pair[1], second.pid)))


def test_windows_are_the_kernels_again_once_the_mode_is_taken_away(pair):
    with kernel_mode(pair[0], optax()) as a, two_tasks(a, pair[1]) as (_, second):
        wait_until_held(a, pair[1], second)
        assert remove(a.host.run_dir / "bpf")
        wait_until(lambda: is_free(windows(a, pair[1], second.pid)))
