import os
import shutil
import socket
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from qclimb.lengths import Service

import hostlib
from lab.build import make
from lab.cli.run import run
from lab.experiment.intervals import NOTHING, Interval
from lab.experiment.passes import better_of_two
from lab.experiment.store import key_of
from lab.run.bounds.announce import RULE, senders_of
from lab.run.bounds.breakdown import Broken, bars, table
from lab.run.bounds.fanin import QUERY_LOAD, Fanin, queries_per_s
from lab.run.bounds.figures import FIGURES, Job, Wanted, jobs, less
from lab.run.bounds.judge import cells, verdict, verdicts
from lab.run.bounds.report import by_share, write_report
from lab.run.bounds.run import Plan, recording_of, topology_of, unusable, wanted_of
from lab.run.bounds.schemes import PUBLISHED_THRESHOLDS, SHARES_PERCENT, VARIANTS, is_told, words_of
from lab.run.programs.fanin_client import schedule, value_bytes
from lab.run.settings import BOUNDS_FIGURES, MORE_TRACES, TRACES, Bounds
from lab.workload import guards, programs
from lab.workload.ground import Loopback
from lab.workload.passes import Word, run_pass
from lab.workload.sources import SOURCES
from lab.workload.steps import ASKED
from lab.workload.trace import Trace

TRACE = Trace.from_text("# t\n# seconds 0.1\n1 0 pull0 h1 h2 5000 100 400\n2 10 pull0 h1 h2 60000 60000 60000\n")


def test_figures_name_schemes_that_there_are():
    for figure in FIGURES:
        assert {*figure.variants, figure.against} <= set(VARIANTS)
        assert {name for claim in figure.claims for name in (claim.scheme, claim.base)} <= set(figure.variants)
        assert set(figure.traces) <= set(SOURCES)
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    assert all(len(variant.scheme.name) and name == variant.name for name, variant in VARIANTS.items())


def test_the_command_knows_the_figures_and_recordings_that_there_are():
    assert tuple(sorted({number for figure in FIGURES for number in figure.numbers})) == BOUNDS_FIGURES
    assert tuple(SOURCES) == TRACES + MORE_TRACES


def test_what_each_source_gives_is_run_where_it_is_asked_for():
    variants = {job.variant for job in jobs(Wanted(("web",), (7,), (0.7,), own=False, sources=True))}
    assert variants >= {"pias", "qclimb-forest", "qclimb-footprint", "qclimb-lengths", "qclimb-ps"}
    assert "qclimb-lengths" not in {job.variant for job in jobs(Wanted())}
    trace = replace(TRACE, flows=(replace(TRACE.flows[0], announced_bytes=9), TRACE.flows[1]))
    assert words_of(VARIANTS["qclimb-lengths"], trace, [], []) == {1: Word(told_bytes=9)}


def test_the_kernel_mode_serves_all_variants_but_those_that_only_a_library_can_tell():
    asked = Wanted(("web",), (7, 16, 20), (0.5, 0.7), (1,), own=False, by=("library", "kernel"))
    by_figure = {figure.name: figure for figure in asked.figures()}
    by_kernel = [name for name in by_figure["7-11"].variants if VARIANTS[name].by == "kernel"]
    assert by_kernel == [f"{name}-by-kernel" for name in ("pias", "qclimb", "qclimb-forest", "qclimb-fp", "qclimb-ps")]
    assert all(VARIANTS[name].by == "library" for name in by_figure["16"].variants)
    assert {*by_figure["20"].variants} >= {f"told-{share}-by-kernel" for share in SHARES_PERCENT}
    assert {job.variant for job in jobs(asked)} >= {"pias", "pias-by-kernel"}
    chosen = replace(asked, variants=("pias", "qclimb"))
    assert {job.variant for job in jobs(chosen)} == {"pias", "qclimb", "pias-by-kernel", "qclimb-by-kernel"}


def test_the_kernel_mode_alone_is_judged_against_its_own_pias():
    (figure,) = Wanted(("web",), (7,), own=False, by=("kernel",)).figures()
    assert figure.against == "pias-by-kernel" and "pias" not in figure.variants
    assert {figure.against} < set(figure.variants) and figure.claims
    assert {name for claim in figure.claims for name in (claim.scheme, claim.base)} <= set(figure.variants)


def test_the_kernel_mode_beside_the_library_must_not_be_worse(make_result):
    (figure,) = Wanted(("web",), (7,), own=False, by=("library", "kernel")).figures()
    said = {}
    for factor in (1.0, 1.2):
        of = {"pias": 1.0, "pias-by-kernel": factor}
        made = {
            Job("web", 0.5, 1, name): make_result(name, [100] * 400, [1e3 * each] * 400) for name, each in of.items()
        }
        (cell,) = cells(replace(figure, loads=(0.5,)), made, list(made))
        said[factor] = next(words for words in verdicts(cell) if "1.05 times in PIAS (" in words)
    assert said[1.0].startswith("holds: ")
    assert said[1.2].startswith("does not hold: ")


def test_figures_that_the_library_alone_can_tell_are_refused_by_the_kernel():
    with pytest.raises(programs.WorkloadError, match="--by kernel: figures 16 need the library"):
        wanted_of(Bounds(figures=(16,), by=("kernel",)))


@pytest.mark.parametrize("name", ["qclimb-ps", "qclimb-lengths", "told-20"])
def test_what_no_library_hears_the_senders_announce(name):
    by_library, by_kernel = VARIANTS[name], VARIANTS[f"{name}-by-kernel"]
    assert words_of(by_kernel, TRACE, [], []) == words_of(by_library, TRACE, [], [])
    assert (by_library.scheme.use_lengths, by_kernel.scheme.use_lengths) == (False, True)


@pytest.mark.parametrize(("told_bytes", "announced"), [(700, 700), (0, 0)])
def test_the_rule_finds_what_a_sender_announces_of_its_flow(tmp_path, told_bytes, announced):
    programs.build_applications()
    ground, seen = Loopback(), []
    (endpoint,) = [each for each in SOURCES["spark"].endpoints if each.name == "push0"]
    assert Service("traffic", 0, endpoint.port) in senders_of([endpoint])
    listener = socket.create_server((ground.hosts["h2"], endpoint.port))

    def serve():
        connection, _ = listener.accept()
        with connection:
            seen.append(connection.recv(RULE.tag_offset + 1, socket.MSG_WAITALL))

    server = threading.Thread(target=serve)
    server.start()
    (tmp_path / "t").write_text("5 0 push0 h1 h2 500 100 400\n")
    (tmp_path / "w").write_text(f"5 {told_bytes} -1\n")
    files = tmp_path / "t", tmp_path / "log"
    driver = programs.start_driver(ground, "h1", *files, 0, 60, [endpoint], tmp_path / "w")
    server.join()
    listener.close()
    driver.wait(60)
    (head,) = seen
    assert head[RULE.tag_offset] == RULE.tag
    assert int.from_bytes(head[RULE.offset : RULE.offset + RULE.width], "little") == announced


def test_sources_are_replayed_from_recordings_that_tell_them():
    told = {asked: recording_of(Bounds(sources=asked), "web") for asked in (False, True)}
    assert not told[False].numbers["announced_bytes"].any()
    assert told[True].numbers["announced_bytes"].any()
    assert recording_of(Bounds(sources=True), "kv").flows == recording_of(Bounds(), "kv").flows


def test_a_larger_share_has_the_flows_of_a_smaller_one_and_the_whole_has_all():
    told = [{n for n in range(1, 5001) if is_told(VARIANTS[f"told-{share}"], n)} for share in (20, 40, 60, 80, 100)]
    assert all(fewer < more for fewer, more in pairwise(told))
    assert [len(each) for each in told] == pytest.approx([1000, 2000, 3000, 4000, 5000], rel=0.05)
    assert words_of(VARIANTS["told-100"], TRACE, [], []) == {1: Word(5000), 2: Word(60_000)}
    assert words_of(replace(VARIANTS["told-20"], share=0.0), TRACE, [], []) == {}


def test_flows_that_are_told_of_are_reported_apart_from_the_others(make_result):
    figure = next(figure for figure in FIGURES if figure.by_share and figure.name == "20")
    sizes, factors = [100] * 400, {"pias": 1.0, "told-20": 2.0}
    made = {}
    for name, factor in factors.items():
        quicker = [0.5 if is_told(VARIANTS["told-20"], n) else factor for n in range(1, 401)]
        made[Job("web", 0.7, 1, name)] = make_result(
            name, sizes, [1e3 * (1.0 if name == "pias" else q) for q in quicker]
        )
    (cell,) = cells(replace(figure, traces=("web",)), made, list(made))
    row = by_share(figure, [cell]).splitlines()[-1]
    assert [text.split()[0] for text in row.strip("| ").split(" | ")[-4:]] == ["0.50", "0.50", "2.00", "2.00"]


def test_each_application_of_a_mixture_is_judged_by_itself(make_result):
    figure = next(figure for figure in FIGURES if figure.name == "19")
    services, factors = ["web-pull0", "spark-push1"] * 200, {"pias": (1.0, 1.0), "told-spark": (2.0, 0.5)}
    made = {
        Job("mix", 0.8, 1, name): make_result(
            name, [100] * 400, [1e3 * factor for factor in both * 200], service=services
        )
        for name, both in factors.items()
    }
    found = cells(figure, made, list(made))
    ratios = {cell.trace: cell.ratio("told-spark", "pias", "small", "mean").value for cell in found}
    assert ratios == pytest.approx({"mix": 1.25, "web in mix": 2.0, "spark in mix": 0.5})


def test_a_figure_of_other_traces_says_what_it_is_of(tmp_path):
    settings = Bounds(traces=("web",), figures=(16, 21))
    text = write_report(
        Plan(settings, wanted_of(settings), None, [Job("web", 0.7, 1, "pias-2q")]), tmp_path / "page.md"
    )
    parts = {part.partition(":")[0]: part for part in text.split("## Figure ")[1:]}
    assert "Not asked for" in parts["16"]
    assert "Not asked for" not in parts["21"] and "Not measured: 1 passes of web" in parts["21"]


def test_each_step_has_its_share_of_the_time_and_bars_show_it(make_result):
    figure = next(figure for figure in FIGURES if figure.measured == "steps" and not figure.optimised)
    size, fct = [100, 200_000] * 50, np.array([1e3, 8e4] * 50)
    shares = {"unbounded": 0.5, "inference": 0.01, "climbing": 0.29, "slack": 0.0, "down": 0.2}
    steps_us = {
        "pias": {name: list(fct * (name == "unbounded")) for name in shares} | {ASKED: [0.0] * 100},
        "qclimb-forest": {name: list(fct / 2 * share) for name, share in shares.items()} | {ASKED: [0.0, 1.0] * 50},
    }
    made = {
        Job("spark", 0.7, 1, name, False, "steps"): make_result(
            name, size, list(sum(map(np.array, its.values()))), steps_us=its
        )
        for name, its in steps_us.items()
    }
    (cell,) = cells(figure, made, list(made))
    broken = [Broken.of(job.variant, [result]) for job, result in made.items()]
    rows = [row.strip("| ").split(" | ") for row in table(cell, broken).splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["small", "PIAS", "50"],
        ["small", "QCLIMB, forest alone", "50"],
        ["medium", "PIAS", "50"],
        ["medium", "QCLIMB, forest alone", "50"],
        ["all", "PIAS", "100"],
        ["all", "QCLIMB, forest alone", "100"],
        ["all", "QCLIMB, forest alone, those with bounds", "50"],
    ]
    assert [float(text.split()[0]) for text in rows[3][3:-1]] == pytest.approx([40, 50, 1, 29, 0, 20])
    assert rows[3][-1] == "400.00, 400.00"
    assert rows[2][4:] == ["100", "0", "0", "0", "0"]
    assert "climbing up" in bars(cell, broken)


def test_each_pass_is_wanted_once_and_schemes_take_turns_to_be_first():
    found = list(jobs(Wanted(traces=("web",), numbers=(7, 14), loads=(0.5,), seeds=(1, 2))))
    assert len(found) == len(set(found)) == 12
    assert len({job.name for job in found}) == 12
    assert [found[0].variant, found[6].variant] == ["pias", "qclimb"]


def test_what_is_told_of_flows_is_what_the_scheme_says():
    thresholds = PUBLISHED_THRESHOLDS[8]
    points = [70_000.0, 0.2]
    assert words_of(VARIANTS["qclimb"], TRACE, points, thresholds) == {}
    assert words_of(VARIANTS["qclimb-ps"], TRACE, points, thresholds) == {1: Word(5000), 2: Word(60_000)}
    assert words_of(VARIANTS["qclimb-pp"], TRACE, points, thresholds) == {1: Word(70_000), 2: Word(1)}
    assert words_of(VARIANTS["qclimb-fp"], TRACE, points, thresholds) == {1: Word(dscp=43), 2: Word(dscp=47)}


def test_the_slack_goes_with_the_thresholds_unless_the_scheme_names_one():
    assert VARIANTS["qclimb"].scheme_by(optimised=False).slack_bytes == 100_000
    assert VARIANTS["qclimb"].scheme_by(optimised=True).slack_bytes is None
    assert VARIANTS["forest-s0"].scheme_by(optimised=False).slack_bytes == 0
    assert VARIANTS["pias"].scheme_by(optimised=False).slack_bytes is None


@pytest.mark.parametrize(
    ("value", "limit", "words"),
    [
        (Interval(0.8, 0.7, 0.9), 1.0, "holds: small flows' mean FCT in QCLIMB is less than in PIAS (here -20 %"),
        (Interval(1.2, 1.1, 1.3), 1.0, "does not hold: "),
        (Interval(0.9, 0.8, 1.1), 1.0, "not resolved: "),
        (Interval(1.4, 1.3, 1.5), 1.63, "holds: small flows' mean FCT in QCLIMB is less than 1.63 times in PIAS"),
        (NOTHING, 1.0, "not measured"),
    ],
)
def test_a_verdict_says_what_was_seen_beside_the_papers_number(value, limit, words):
    claim = less("qclimb", "pias", "small", "mean", "-44 %", limit)
    assert verdict(claim, value).startswith(words)
    assert verdict(claim, value).endswith("paper -44 %)")


def test_only_windows_that_every_measured_scheme_has_are_compared(make_result):
    figure = replace(FIGURES[0], traces=("web",), loads=(0.5,), variants=("pias", "qclimb"))
    made = {
        Job("web", 0.5, seed, name): make_result(name, [100, 90_000] * 20, [factor * 1e3, factor * 9e4] * 20)
        for name, factor in (("pias", 2.0), ("qclimb", 1.0))
        for seed in (1, 2)
        if (name, seed) != ("qclimb", 2)
    }
    (cell,) = cells(figure, made, [Job("web", 0.5, seed, name) for seed in (1, 2) for name in ("pias", "qclimb")])
    assert cell.seeds == (1,) and cell.flows("small") == 40 and cell.flows("medium") == 0
    assert cell.ratio("qclimb", "pias", "small", "mean").value == pytest.approx(0.5)


def test_a_key_changes_with_whatever_decides_a_pass():
    one = {"variant": "qclimb", "optimised": False, "trace": "d", "topology": {"rate": 25}}
    changed = [one | {name: "other"} for name in one]
    assert len({key_of(each) for each in [one, *changed]}) == len(one) + 1
    assert topology_of(SOURCES["web"]) != topology_of(SOURCES["kv"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--traces", "web,tensorflow"], "'tensorflow' is none of web, spark, kv"),
        (["--figures", "13"], "'13' is none of 7, 8, 9, 10, 11, 12, 14"),
        (["--schemes", "pfabric"], "'pfabric' is none of tcp, pias"),
        (
            ["--figures", "16", "--traces", "web"],
            "--traces web --loads 0.5,0.7 --figures 16: there is nothing to measure; Figure 16 is of spark at load 0.7",
        ),
    ],
)
def test_wrong_options_are_refused_with_exit_2(arguments, words):
    done = CliRunner().invoke(run, ["bounds", *arguments])
    assert done.exit_code == 2 and words in done.output


@pytest.fixture
def ground(tmp_path):
    """Loopback with the library, which logs what it sees."""
    programs.build_applications()
    root = Path(hostlib.__file__).parent
    assert make(root, "lib") == ""
    log = {"QCLIMB_MODE": "qclimb", "QCLIMB_LOG": str(tmp_path / "log"), "QCLIMB_RUN": str(tmp_path / "none")}
    return Loopback(2, network=f"127.{20 + os.getpid() % 200}.77", library=root / "build/libqclimb.so", environment=log)


def test_flows_are_written_and_told_as_the_replay_says(ground, tmp_path):
    (tmp_path / "log").touch()
    endpoints = [point for point in SOURCES["spark"].endpoints if point.name in ("pull0", "push0")]
    text = TRACE.to_text() + "3 20 push0 h1 h2 7000 21 21\n4 30 push0 h1 h2 40 8 40\n"
    trace = Trace.from_text(text)
    words = {1: Word(told_bytes=4242), 3: Word(told_bytes=999), 2: Word(dscp=10)}
    result = run_pass(ground, trace, "by hand", tmp_path / "pass", services=endpoints, words=words)
    assert not result.failures
    log = (tmp_path / "log").read_text()
    for words_of_log in (
        "flow starts call=100\n",
        "flow starts call=60000",
        "flow starts call=21",
        "flow starts call=8\n",
    ):
        assert words_of_log in log
    assert "told size=4242" in log and "told size=999" in log


def test_queries_are_the_same_for_every_scheme_and_as_many_as_the_load_says():
    rate = queries_per_s(15e6, 7)
    one, other = schedule(3, rate, 100, 7), schedule(3, rate, 100, 7)
    assert one == other != schedule(4, rate, 100, 7)
    sizes = value_bytes()
    load = sum(sizes[key] for _, keys in schedule(1, rate, 2000, 7) for key in keys) * 8 / 2000 / 15e6
    assert load == pytest.approx(QUERY_LOAD, rel=0.1)
    assert all(len(keys) == 7 for _, keys in one)


@pytest.mark.skipif(shutil.which("memcached") is None, reason="memcached is missing")
def test_a_query_ends_with_its_last_answer_and_is_timed_beside_the_background(tmp_path):
    programs.build_applications()
    bare = Loopback(3, network=f"127.{20 + os.getpid() % 200}.78")
    endpoints = list(SOURCES["web"].endpoints)
    with Fanin(bare, tmp_path / "queries", 1, 1.0) as fanin:
        background = run_pass(bare, TRACE, "tcp", tmp_path / "pass", services=endpoints, beside=fanin.begin)
        result = fanin.result(background)
    assert not result.failures and len(result.id) > 3
    assert {*result.service} == {"query"} and min(result.fct_us) > 0
    assert {*result.client} == set(bare.hosts)
    assert min(result.bytes) >= 2 and max(result.bytes) <= 2 * value_bytes()["large"]


def test_a_pass_with_failures_is_made_once_again_and_the_better_one_is_taken(make_result):
    bad = make_result("pias", [100] * 4, [1e3] * 4, failures={"unfinished": 2})
    good = make_result("pias", [100] * 4, [1e3] * 4, late_us=[90_000] * 4)
    said: list[str] = []
    assert better_of_two(iter([bad, good]).__next__, unusable, said.append) is good
    assert "2 unfinished" in said[0]
    assert better_of_two(iter([good]).__next__, unusable, said.append) is good and len(said) == 1
    assert better_of_two(iter([good, bad]).__next__, guards.trouble, said.append) is bad
