"""The OPTAX experiment: its points, its arithmetic, and one short run of it."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from lab.fabric import FabricError, netns, state
from lab.fabric.cgroups import path_of
from lab.fabric.star import build, up
from lab.run.optax.blocks import BlockResult, Blocks, disks, programs, run_blocks
from lab.run.optax.points import KB, MIXES, Point, points, scheduled
from lab.run.optax.report import bulk_rates, gain, number_of, write_report
from lab.run.optax.run import described, key, run_optax, schemes, star_of
from lab.run.optax.tasks import Done, Result, Scheme, Task, run, senders
from lab.run.settings import Optax


def result(*seconds, start=0.0):
    return Result(tuple(Done(Task(start), start + each, ()) for each in seconds), 0.9)


def star(prefix):
    return replace(star_of(Optax(), is_split=False), prefix=prefix, senders=("s1", "s2"))


def test_a_run_is_found_by_the_key_that_it_always_had():
    star = star_of(Optax(), is_split=True)
    assert key([0, "fair", [], described(star), ["a"]]) == "6fb91a25b95eb325"


def test_every_run_of_a_point_has_the_same_tasks_for_every_scheme():
    for point in points():
        assert point.tasks(3) == point.tasks(3)
        assert all(task.flow_bytes > 0 for task in point.tasks(0))


def test_figure_10_goes_from_2_to_10_tasks_of_8_flows_of_256_kb():
    found = [point.tasks(0) for point in points() if point.figure == "fig10"]
    assert [len(tasks) for tasks in found] == [2, 4, 6, 8, 10]
    assert {(task.width, task.flow_bytes) for tasks in found for task in tasks} == {(8, 256 * KB)}


def test_a_mix_has_the_shares_of_table_1():
    assert all(sum(shares) in (99, 100) for shares in MIXES.values())
    tasks = Point("fig13", "Normal", ("fair",), "mix").tasks(0)
    shapes = [sum(1 for task in tasks if (task.name, task.width) == shape) for shape in (("small", 2), ("large", 8))]
    assert shapes == [10, 3]  # 52 % and 17 % of 20


def test_a_report_says_what_does_not_hold(tmp_path):
    point = Point("base", "threads", ("fair", "optax"), "tasks", (4, 8, 256 * KB))
    good = {point: {"fair": 2 * [result(0.6, 0.7)], "optax": 2 * [result(0.2, 0.7)]}}
    bad = {point: {"fair": 2 * [result(0.6, 0.7)], "optax": 2 * [result(0.6, 0.8)]}}
    assert gain(good[point], "optax") == pytest.approx(1.3 / 0.9)
    assert write_report(good, tmp_path / "good.md", "").count("does not hold") == 0
    assert write_report(bad, tmp_path / "bad.md", "").count("does not hold") == 2
    once = {point: {name: runs[:1] for name, runs in bad[point].items()}}
    assert write_report(once, tmp_path / "once.md", "").count("not resolved") == 2


def test_a_figure_says_how_often_its_points_were_measured(tmp_path):
    few, many = (Point("fig12", x, ("fair", "optax"), "arrivals", (0.1,)) for x in "ab")
    once = {"fair": [result(0.6, 0.7)], "optax": [result(0.2, 0.7)]}
    found = {few: once, many: {name: 3 * results for name, results in once.items()}}
    write_report(found, tmp_path / "page.md", "")
    assert "1 to 3 runs" in (tmp_path / "page-fig12.svg").read_text()
    assert [number_of(runs) for runs in ([1], [2, 2], [1, 4])] == ["1 run", "2 runs", "1 to 4 runs"]


def test_the_kernel_mode_stands_beside_fair_sharing_wherever_optax_does():
    both, alone = (
        {(point.figure, point.x): scheduled(point, by).schemes for point in points()}
        for by in (("library", "kernel"), ("kernel",))
    )
    assert both["base", "threads"] == ("fair", "observe", "optax", "optax-learned", "optax-by-kernel")
    assert alone["base", "threads"] == alone["fig12", "0.5"] == ("fair", "optax-by-kernel")
    assert alone["fig13", "Normal"] == ("fair",)
    assert scheduled(next(points()), ("library",)) == next(points())


def test_figures_of_the_library_alone_are_refused_by_the_kernel(tmp_path):
    with pytest.raises(FabricError, match="--by kernel: fig13, blocks are the library's alone"):
        run_optax(Optax(only=("fig13", "blocks"), by=("kernel",), folder=tmp_path), Console())


def test_each_way_to_schedule_is_judged_by_itself(tmp_path):
    point = Point("base", "threads", ("fair", "optax", "optax-by-kernel"), "tasks", (4, 8, 256 * KB))
    slow, quick = 2 * [result(0.6, 0.7)], 2 * [result(0.2, 0.7)]
    page = write_report({point: {"fair": slow, "optax": quick, "optax-by-kernel": slow}}, tmp_path / "page.md", "")
    gains = [line for line in page.splitlines() if "at least 1.3" in line]
    assert "**holds**: threads, optax:" in gains[0]
    assert "**does not hold**: threads, optax-by-kernel:" in gains[1]


def test_a_slow_task_asks_its_senders_for_their_pace():
    (point,) = [point for point in points() if point.figure == "slow"]
    first, *others = point.tasks(0)
    assert first.pace_kbs * first.width == 2400
    assert {task.pace_kbs for task in others} == {0}


def test_those_behind_a_slow_head_are_told_apart_from_it(tmp_path):
    slow = Done(Task(0, name="slow"), 2.0, ())
    point = Point("slow", "threads", ("fair", "optax"), "slow", (3, 8, 256 * KB))
    each = {scheme: 2 * [Result((slow, *result(ends).done), 0.9)] for scheme, ends in (("fair", 0.5), ("optax", 0.8))}
    assert "does not hold" in write_report({point: each}, tmp_path / "slow.md", "")
    assert "does not hold" not in write_report({point: each | {"optax": each["fair"]}}, tmp_path / "slow.md", "")


def test_the_large_flows_rate_is_read_from_its_samples():
    samples = tuple((0.1 * n, 1000 * n) for n in range(1, 60))
    large = Done(Task(0, 1, 59_000, name="large"), 5.9, samples)
    small = Done(Task(1), 1.7, ())
    assert bulk_rates(Result((large, small), 1.0)) == pytest.approx((10_000,) * 3)


def test_a_plan_has_a_port_of_one_queue_or_of_two_by_dscp():
    one, two = (star_of(Optax(), is_split) for is_split in (False, True))
    lines = [command.line for command in build(one, "htb")]
    assert not any("u32" in line for line in lines)
    lines = [command.line for command in build(two, "htb")]
    assert sum("u32" in line for line in lines) == 1


@pytest.mark.fabric
def test_tasks_are_complete_with_the_kernel_mode_at_the_receiver_and_nothing_stays(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    place, scheme = star(f"ok{os.getpid()}"), schemes(Optax(folder=tmp_path))["optax-by-kernel"]
    assert scheme.policy.optax and not scheme.library
    try:
        with up(place), senders(place, scheme):
            found = run(
                place, scheme, [Task(0.001 * n, 4, 64 * KB) for n in range(3)]
            )  # raises where a byte is missing
            assert len(found.done) == 3
            assert not path_of(place.netns(place.receiver)).exists()
    except FabricError as error:
        if any(words in str(error) for words in ("missing", "neither ets nor HTB", "cgroup", "kernel's part")):
            pytest.skip(str(error))
        raise


OWNER = """
import sys, time
from pathlib import Path
from lab.fabric.star import up
from lab.run.optax.kernel import served
from lab.run.optax.run import schemes, star_of
from lab.run.settings import Optax
settings = Optax(prefix=sys.argv[1], folder=Path(sys.argv[2]))
with up(star_of(settings, False)) as star, served(star, schemes(settings)["optax-by-kernel"].policy):
    print("up", flush=True)
    time.sleep(1000)
"""


@pytest.mark.fabric
def test_the_command_down_removes_what_a_killed_run_by_the_kernel_mode_left(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    place = star(f"od{os.getpid()}")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, place.prefix, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if owner.stdout.readline() != "up\n":
        _, errors = owner.communicate()
        if any(words in errors for words in ("missing", "neither ets nor HTB", "cgroup", "kernel's part")):
            pytest.skip(errors.splitlines()[-1])
        raise AssertionError(errors)
    owner.kill()
    owner.communicate()
    group, pins = path_of(place.netns(place.receiver)), state.star_directory(place.prefix) / "bpf"
    assert group.exists() and pins.is_mount() and all(netns.exists(name) for name in place.namespaces)
    command = [str(Path(sys.executable).parent / "qclimb"), "lab", "down", "--prefix", place.prefix]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0 and "removed" in first.stdout
    assert not group.exists() and not pins.is_mount() and not state.directory_of(place.prefix).exists()
    assert not any(netns.exists(name) for name in place.namespaces)
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 0 and "nothing there" in second.stdout


@pytest.mark.fabric
def test_tasks_are_complete_under_optax_and_the_star_goes(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    place = star(f"ot{os.getpid()}")
    scheme = Scheme("optax", True, {"QCLIMB_MODE": "observe", "QCLIMB_OPTAX": "100"}, {"QCLIMB_MODE": "observe"})
    tasks = [Task(0.001 * n, 4, 32 * KB, mode) for n, mode in enumerate(("threads", "epoll-et", "poll"))]
    paced = Task(0, 2, 64 * KB, pace_kbs=100)
    try:
        with up(place), senders(place, scheme):
            found = run(place, scheme, tasks)  # raises where a byte is missing
            assert len(found.done) == 3
            (slow,) = run(place, scheme, [paced]).done
            assert slow.duration_s > 0.4  # 64 KB at 100 KB/s, but for ten segments that the kernel sends at once
    except FabricError as error:
        if "missing" in str(error) or "neither ets nor HTB" in str(error):
            pytest.skip(str(error))
        raise
    assert not any(netns.exists(name) for name in place.namespaces)


@pytest.mark.fabric
def test_blocks_are_read_by_fio_from_nbdkits_under_the_library():
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    place = star(f"ob{os.getpid()}")
    scheme = Scheme("optax", True, {"QCLIMB_MODE": "observe", "QCLIMB_OPTAX": "100"}, {"QCLIMB_MODE": "observe"})
    blocks = Blocks(servers=2, large_bytes=1 << 20, run_s=2)
    try:
        programs()
        with up(place), disks(place, scheme, blocks.servers):
            found = run_blocks(place, scheme, blocks)
    except FabricError as error:
        if "missing" in str(error) or "neither ets nor HTB" in str(error):
            pytest.skip(str(error))
        raise
    assert 0 < found.small_per_s <= 2 * blocks.small_per_s * 1.1
    assert 0 < found.latency_us <= found.p99_us
    assert found.large_bytes_per_s > 0


def test_a_report_of_blocks_says_what_does_not_hold(tmp_path):
    fair, slow, good = (BlockResult(at, 2 * at, 200, rate, 0.9) for at, rate in ((30e3, 1e7), (9e3, 1e7), (2e3, 1e7)))
    for said, ours in ((1, slow), (0, good)):
        text = write_report(
            {}, tmp_path / "optax.md", "", {"reads": {"fair": 2 * [fair], "optax-priority": 2 * [ours]}}
        )
        assert text.count("does not hold") == said
