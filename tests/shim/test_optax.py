"""OPTAX at receivers: tasks behind the head are held back, whatever they wait by; no byte, event or window is lost."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from receiving import PORT, SLOW, TRIES, line_of, needs_root, segments
from stand import ROOT, built, environment, wait_until

from tests.tiers import quick_first

pytestmark = needs_root


def held_back(host, word, **words):
    """A task behind the head, once the log says by `word` that it is held back."""
    for _ in range(TRIES):
        before = host.logged(word)
        task = host.start("fetch", SLOW, port=PORT, **words)
        wait_until(lambda before=before, task=task: host.logged(word) > before or task.poll() is not None)
        if task.poll() is None:
            return task
        assert host.says(task) == {"whole": [True] * words["flows"]}
    pytest.fail(f"{TRIES} tasks behind a head, and none was held back")


WAYS = ["threads", "poll", "select", "epoll", "epoll-et", "asyncio"]


@pytest.mark.parametrize("mode", quick_first(WAYS, 2))
def test_a_task_behind_the_head_is_held_back_and_gets_every_byte(host, mode):
    head = host.ready("head", SLOW, port=PORT)
    word = {"threads": "withheld", "poll": "left out", "select": "left out"}.get(mode, "masked")
    behind = held_back(host, word, mode=mode, flows=3, size=400_000)
    head.kill()  # a head that is gone is nobody's: else the rest would come by W_min a time
    assert host.says(behind) == {"whole": [True] * 3}


@pytest.mark.parametrize("mode", quick_first(WAYS, 2))
def test_several_tasks_at_once_all_get_every_byte(host, mode):
    tasks = [host.start("fetch", "50", port=PORT, mode=mode, flows=4, size=300_000) for _ in range(3)]
    for task in tasks:
        assert host.says(task) == {"whole": [True] * 4}
    assert host.logged("joins the line") >= 3  # each of them stood in it


LEAST_BUFFER = 8192
"""What the kernel makes of the smallest window's SO_RCVBUF."""


def test_a_head_that_cannot_fill_the_link_is_joined_by_the_next(host):
    for _ in range(TRIES):  # beside what the next in line gets anyway the link is nearly full, and may be seen to be
        head = host.ready("trickle", "5", port=PORT, flows=9)  # three quarters of the link, by more than a few flows
        assert host.says(host.start("window", "5", port=PORT, size=1_000_000))["most"] > LEAST_BUFFER
        if host.logged("joined by 1"):
            return
        head.kill()  # it goes behind others once it got much
        head.wait()
    pytest.fail("the next in line never joined a head that can't fill the link")


def test_a_head_that_takes_a_fraction_of_the_link_holds_nobody_back(host):
    host.ready("trickle", "100", port=PORT, flows=9)
    behind = host.start("fetch", "100", port=PORT, mode="threads", flows=3, size=20_000)
    assert host.says(behind) == {"whole": [True] * 3}
    assert host.logged("withheld") == host.logged("joined") == 0


def six_at_once(host, mode):
    programs = [host.start("fetch", "10000", port=PORT, mode=mode, flows=3, size=20_000) for _ in range(6)]
    for program in programs:
        assert host.says(program) == {"whole": [True] * 3}


def times_held(host):
    return sum(host.logged(word) for word in ("withheld", "left out", "masked"))


@pytest.mark.system
@pytest.mark.parametrize("mode", ["threads", "poll", "epoll"])
def test_short_programs_one_after_another_and_at_once_are_served_as_if_there_were_no_line(host, tmp_path, mode):
    """Six at a time, that get 60 KB each; the link carries a hundred times what they ask for.

    Where all six begin at one moment, nothing being known yet, one or two may be held for a ms; with a line that is
    taken for full until it is seen to have room some forty were. Once one has ended, and another keeps the line, and so
    what is known, none is.
    """
    for _ in range(4):
        six_at_once(host, mode)
    assert host.logged("joins the line") > 0
    assert times_held(host) <= 12
    host.start("fetch", "10000", port=PORT, mode=mode, flows=3, size=20_000, after=str(tmp_path / "never"))
    wait_until(lambda: segments(host))
    six_at_once(host, mode)
    before = times_held(host)
    for _ in range(4):
        six_at_once(host, mode)
    assert times_held(host) == before


def test_a_window_starts_with_ten_segments_where_nobody_stands_in_line(host):
    first = host.says(host.start("buffers", "1000", port=PORT, size=10_000))["first"]
    assert first > 10 * 1448 * 2
    host.ready("head", SLOW, port=PORT)
    behind = (host.says(host.start("buffers", SLOW, port=PORT, size=10_000))["first"] for _ in range(TRIES))
    assert any(first <= LEAST_BUFFER for first in behind)


def pruned(host):
    """Bytes that arrived for which there was no room although they had been let in: how often."""
    argv = ["ip", "netns", "exec", host.name, "cat", "/proc/net/netstat"]
    names, values = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[:2]
    return int(dict(zip(names.split(), values.split(), strict=True))["TCPRcvQDrop"])


def test_a_window_that_shrinks_throws_nothing_away(host, tmp_path):
    """Tasks begin without a line, and have one before they have read what was let in."""
    go = tmp_path / "go"
    for _ in range(5):
        lazy = [host.ready("lazy", SLOW, port=PORT, go=str(go), size=200_000) for _ in range(2)]
        head = host.ready("head", SLOW, port=PORT)
        go.touch()
        time.sleep(0.1)
        head.kill()
        head.wait()
        for task in lazy:
            assert host.says(task) == {"got": 200_000}
        go.unlink()
    assert pruned(host) == 0


@pytest.mark.parametrize("way", ["at once", "head"])
def test_a_buffer_stays_until_all_that_it_let_in_was_read(tmp_path, way):
    """Whatever the window was since: a head's, for a while."""
    program, shim = tmp_path / "shrink", ROOT / "hostlib" / "shim"
    include = ["-I", shim, "-I", ROOT / "hostlib" / "core" / "include"]
    sources = [Path(__file__).with_name("shrink.c"), shim / "optax" / "window.c"]
    subprocess.run(["cc", "-D_GNU_SOURCE", *include, "-o", program, *sources], check=True)
    done = subprocess.run([program, way], check=True, capture_output=True, text=True, timeout=60)
    waits_for, let_in = map(int, done.stdout.split())
    assert waits_for >= let_in > 0


def test_a_head_that_fills_the_link_is_joined_by_nobody(host):
    host.ready("head", SLOW, port=PORT)
    for _ in range(TRIES):
        before = [host.logged(word) for word in ("withheld", "joined")]
        assert host.says(host.start("fetch", SLOW, port=PORT, mode="threads", flows=2, size=20_000))
        withheld, joined = (host.logged(word) - was for word, was in zip(("withheld", "joined"), before, strict=True))
        if withheld and not joined:
            return
    pytest.fail(f"{TRIES} tasks behind a head: the last was withheld {withheld} times, and joined {joined} times")


def test_a_head_that_got_more_than_others_do_lets_them_go_before(host, tmp_path):
    go, log = tmp_path / "go", tmp_path / "before"
    task = {"port": PORT, "mode": "threads", "flows": 2, "size": 20_000}
    before = host.start("fetch", SLOW, log=log, after=str(go), **task)
    for n in range(TRIES):
        first = tmp_path / f"behind{n}"
        with line_of(host) as number:  # by a head that is never small, never known as large
            assert host.says(host.start("fetch", SLOW, log=first, **task))
        if "withheld" in first.read_text():  # nothing was known of what small tasks get
            break
        host.running[-2].kill()  # the head; and with the line goes what it knows
        host.running[-2].wait()
        subprocess.run(["ipcrm", "-m", str(number)], check=True)
    else:
        pytest.fail(f"{TRIES} tasks behind a head, and none was held back")
    wait_until(lambda: host.logged("got more than 262144 bytes") > 0)
    go.touch()
    assert host.says(before)
    assert "withheld" not in log.read_text()


def test_a_large_flow_after_a_large_one_has_the_kernels_window_from_its_start(host, tmp_path):
    bare = host.says(host.start("kept", library=False, port=PORT, size=3_000_000, times=2))["early"]
    for n in range(TRIES):
        log = tmp_path / f"kept{n}"
        first, second = host.says(host.start("kept", SLOW, log=log, port=PORT, size=3_000_000, times=2))["early"]
        assert first < bare[0] / 2
        assert second >= bare[0]
        if log.read_text().count("joins the line") == 1:  # the second was never taken for a small one
            return
    pytest.fail("the task stood in line again")


OUR_BOUNDS = {1448 << n for n in range(1, 7)}
"""Of a large flow's window beside a line, 2 to 64 segments; the kernel's own are none of these."""


@pytest.mark.parametrize(("pause", "is_bound"), [(0, True), (0.01, False)])
def test_a_large_flow_gets_no_more_than_its_share_beside_a_line_and_no_less(host, tmp_path, pause, is_bound):
    """Five flows at 20 Mb/s, which the four in line alone would take; a large one at 0.8 has less than its share."""
    go = tmp_path / "go"
    large = host.ready("beside", "20", port=PORT, go=str(go), pause=pause)
    head = host.ready("head", "20", port=PORT)
    go.touch()
    assert large.stdout.readline() == "seen\n"
    head.kill()
    head.wait()
    go.unlink()
    said = host.says(large)
    assert (said["least"] in OUR_BOUNDS) == is_bound
    assert said["after"] not in OUR_BOUNDS


@pytest.mark.parametrize(("loopback", "is_left_alone"), [("", True), ("on", False)])
def test_what_stays_on_a_host_is_left_alone(host, loopback, is_left_alone):
    task = {"port": PORT, "mode": "epoll", "flows": 2, "size": 300_000}
    assert host.says(host.start("fetch", SLOW, loopback=loopback, **task)) == {"whole": [True] * 2}
    assert (host.logged("joins the line") == 0) == is_left_alone
    if is_left_alone:
        bare = host.says(host.start("kept", library=False, port=PORT, size=300_000, times=1))["early"]
        assert host.says(host.start("kept", SLOW, loopback=loopback, port=PORT, size=300_000, times=1))["early"] == bare


def test_short_answers_on_a_kept_connection_are_not_withheld(host, tmp_path):
    host.ready("head", SLOW, port=PORT)
    found = []
    for n in range(TRIES):
        log = tmp_path / f"kept{n}"
        host.says(host.start("kept", SLOW, log=log, port=PORT, size=7000, times=20))
        found.append(log.read_text().count("withheld"))
        held = sorted(filter(None, found))
        if len(held) == 5:
            break
    else:
        pytest.fail(f"reads withheld: {found}")
    assert held[2] < 10, found  # those of the first answer; each read of all would be 60


def test_a_head_that_is_stopped_is_passed_over(host):
    head = host.ready("head", SLOW, port=PORT)
    head_pid = int(subprocess.run(["pgrep", "-P", str(head.pid)], capture_output=True, text=True).stdout or head.pid)
    behind = held_back(host, "withheld", mode="threads", flows=2, size=400_000)
    os.kill(head_pid, signal.SIGSTOP)
    try:
        assert host.says(behind) == {"whole": [True] * 2}
    finally:
        os.kill(head_pid, signal.SIGCONT)


def test_poll_keeps_its_time_outs_and_ends_when_reads_are_due(host):
    host.ready("head", SLOW, port=PORT)
    for _ in range(TRIES):
        said = host.says(host.start("timeouts", SLOW, port=PORT))
        assert said["early"] == 0
        if said["empty"]:
            return
    pytest.fail("no poll ran out: nothing was withheld")


def test_a_window_starts_small_and_a_large_flow_gets_the_kernels_back(host):
    bare = host.says(host.start("buffers", library=False, port=PORT, size=3_000_000))
    ours = host.says(host.start("buffers", "1000", port=PORT, size=3_000_000))
    assert ours["first"] < bare["first"] / 2
    assert ours["wscale"] == bare["wscale"] > 0
    assert ours["shown"] == bare["shown"]
    assert ours["last"] >= bare["first"]
    assert ours["lock"] == bare["lock"] == 0


@pytest.mark.parametrize("first", [100, 8000], ids=["free", "in-line"])
def test_who_waits_until_enough_can_be_read_before_it_reads_gets_it(host, first):
    """By FIONREAD; 50,000 bytes are less than a bare kernel's first window lets in."""
    task = {"port": PORT, "size": first + 50_000, "first": first}
    assert host.says(host.start("unread", library=False, **task)) == {"whole": True}
    host.ready("head", SLOW, port=PORT)
    assert host.says(host.start("unread", SLOW, **task)) == {"whole": True}


def test_a_child_reads_on_what_its_parent_began(host):
    host.ready("head", SLOW, port=PORT)
    assert host.says(host.start("forked", SLOW, port=PORT)) == {"got": 200_000}


TASK = ROOT / "lab" / "run" / "programs" / "optax" / "task.c"


@pytest.mark.system
@pytest.mark.parametrize("mode", ["threads", "epoll", "poll"])
def test_the_thread_sanitizer_finds_nothing_in_tasks_at_once(host, tmp_path, mode):
    library, program = built("thread"), tmp_path / "task"
    subprocess.run(["cc", "-std=c11", "-O1", "-g", "-fsanitize=thread", "-pthread", "-o", program, TASK], check=True)
    env = environment(host.path / "absent", QCLIMB_MODE="observe", QCLIMB_OPTAX="20", LD_PRELOAD=str(library))
    words = ["env", *(f"{key}={value}" for key, value in env.items()), program, "fetch", mode, "0", "300000"]
    argv = ["ip", "netns", "exec", host.name, *words, *[f"127.0.0.1:{PORT}"] * 4]
    bare = subprocess.run(
        ["ip", "netns", "exec", host.name, program, "fetch", mode, "0", "300000", f"127.0.0.1:{PORT}"], check=False
    )
    if bare.returncode:
        pytest.skip("ThreadSanitizer does not run here")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    tasks = [subprocess.Popen(argv, **pipes) for _ in range(3)]
    said = [task.communicate(timeout=60)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0] * 3, "\n".join(said)
    assert all('"bytes": 1200000' in each for each in said)
