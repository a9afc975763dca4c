"""What the library takes of an application's stack: a thread, or a signal handler, may have little of it."""

import itertools
import subprocess
import time
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import policy, put_policy
from test_robust import put_model, two_leaves

MOST_BYTES = 4096
"""Beside what the same calls take of it without the library. It was 10,900 where a policy came in a write."""


@pytest.fixture(scope="module")
def small_stack(tmp_path_factory, libc):
    return libc.compiled(tmp_path_factory.mktemp("stack") / "small_stack", Path(__file__).with_name("small_stack.c"))


def run(libc, program, run_dir, how, mode, **more):
    """While it runs, policies and models come as fast as the library looks for them."""
    generations = itertools.count(1)

    def put_next() -> None:
        generation = next(generations)
        put_model(run_dir, two_leaves(generation))
        put_policy(run_dir, policy(mode, generation=generation, model_generation=generation))

    put_next()
    # What ld.so takes to look a function up at its first call, 3 KB, is not measured.
    environment = libc.environment(run_dir, **({} if how == "thread" else {"LD_BIND_NOW": "1"}), **more)
    with subprocess.Popen([program, how, "1"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            time.sleep(0.05)
            put_next()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB])
def test_calls_take_at_most_four_kilobytes_of_stack_more_than_without_the_library(libc, small_stack, run_dir, mode):
    bare = int(run(libc, small_stack, run_dir, "depth", mode, LD_PRELOAD=""))
    assert bare > 1000  # the paint was read rightly
    assert int(run(libc, small_stack, run_dir, "depth", mode)) - bare <= MOST_BYTES


@pytest.mark.parametrize("how", ["thread", "signal"])
@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_a_write_in_a_handler_or_a_thread_with_little_stack_ends_no_program(libc, small_stack, run_dir, how, mode):
    run(libc, small_stack, run_dir, how, mode)
