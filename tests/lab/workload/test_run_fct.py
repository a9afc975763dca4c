import io
from contextlib import contextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner
from rich.console import Console

from lab.cli import run as cli
from lab.experiment.passes import Pass
from lab.fabric import Topology
from lab.run import demo
from lab.run import fct as run_fct
from lab.run.fct import key, passes, scheme_of, trace_of
from lab.run.report import results
from lab.run.settings import COMPARED, SCHEMES, Demo, Fct, Numbers
from lab.scheduler import SCHEDULERS
from lab.workload import guards, schemes
from lab.workload.trace import Flow, Trace

SETTINGS = Fct(seeds=(1, 2), loads=(0.4, 0.6), schemes=("tcp", "pias", "qclimb"), seconds=1.0)
FEW = replace(SETTINGS, seeds=(1,), schemes=("tcp", "pias"))


def test_every_scheme_comes_first_in_turn():
    found = passes(SETTINGS)
    assert len(found) == len({one.name for one in found}) == 12
    assert [one.scheme for one in found[::3]] == ["tcp", "pias", "qclimb", "tcp"]


def test_schemes_of_one_seed_and_load_replay_the_same_trace():
    digests = {}
    for one in passes(SETTINGS):
        digests.setdefault((one.point, one.repeat), set()).add(trace_of(one, SETTINGS, Topology()).digest)
    assert all(len(found) == 1 for found in digests.values())


def test_the_demo_by_the_kernel_mode_leaves_out_what_lengths_alone_would_tell_apart():
    names = {by: [scheme.name for scheme in demo.compared(Demo(by=by))] for by in SCHEDULERS}
    assert set(names["library"]) - set(names["kernel"]) == {"qclimb-lengths"}
    assert "qclimb" in names["kernel"]


def test_a_key_changes_with_everything_that_decides_a_pass():
    one, topology = Pass(0.4, "pias", 1, ""), Topology()
    trace = trace_of(one, SETTINGS, topology)
    keys = {
        key(schemes.SCHEMES[one.scheme], trace, topology, {"lib": "a"}),
        key(schemes.SCHEMES[one.scheme], trace, topology, {"lib": "b"}),
        key(schemes.SCHEMES["tcp"], trace, topology, {"lib": "a"}),
        key(schemes.SCHEMES[one.scheme], trace_of(replace(one, repeat=2), SETTINGS, topology), topology, {"lib": "a"}),
        key(schemes.SCHEMES[one.scheme], trace, replace(topology, buffer_bytes=50_000), {"lib": "a"}),
    }
    assert len(keys) == 5
    assert key(schemes.SCHEMES[one.scheme], trace, topology, {"lib": "a"}) in keys


def test_shares_that_are_given_stand_for_the_choice():
    given = replace(SETTINGS, buffer_shares=(0, 0, 0, 0, 0, 0, 0, 3))
    chosen, fixed = (scheme_of("pias-shares", settings) for settings in (SETTINGS, given))
    assert (chosen.dynamic_th, fixed.dynamic_th) == ("choose", given.buffer_shares)
    assert scheme_of("pias", given) == schemes.SCHEMES["pias"]
    trace = trace_of(Pass(0.4, "pias", 1, ""), SETTINGS, Topology())
    assert key(chosen, trace, Topology(), {}) != key(fixed, trace, Topology(), {})


def test_a_pass_is_found_by_the_key_that_it_always_had():
    trace = Trace((Flow(1, 0, "search", "h1", "h2", 100),), {"load": "0.4", "seed": "1"})
    assert key(schemes.SCHEMES["pias"], trace, Topology(), {"lib": "a"}) == "7c690d59b97527c0cd9a"


@pytest.fixture
def ran(monkeypatch, make_result):
    """Passes that would have run, without a fabric: each gives a small result by hand."""
    found = []

    @contextmanager
    def bench(plan, say, missing):
        def run(one, progress):
            found.append(one.name)
            digest = plan.traces[one.point, one.repeat].digest
            return make_result(
                one.scheme, [100, 900_000] * 20, [1e3, 9e5] * 20, load=one.point, seed=one.repeat, trace_digest=digest
            )

        yield run

    monkeypatch.setattr(run_fct, "bench", bench)
    return found


@pytest.fixture
def undrawn(monkeypatch):
    """A report has no pictures, which take seconds to draw and are not looked at."""
    monkeypatch.setattr(results, "write_html", lambda *_: None)


def quiet():
    return Console(width=150, file=io.StringIO())


def test_a_run_ends_with_its_report(ran, tmp_path):
    comparisons = run_fct.run_fct(replace(SETTINGS, loads=(0.4,), folder=tmp_path), quiet())
    assert len(ran) == 6 and len(comparisons) == 1
    assert "Ratios to plain TCP over" in (tmp_path / "report.html").read_text()
    assert (tmp_path / "report.md").is_file()


def test_a_rerun_does_only_what_is_missing(ran, undrawn, tmp_path):
    settings = replace(FEW, folder=tmp_path)
    assert len(run_fct.run_fct(settings, quiet())) == 2 and len(ran) == 4
    ran.clear()
    run_fct.run_fct(settings, quiet())
    assert ran == []
    (lost,) = (tmp_path / "passes").glob("load0.6-seed1-pias-*")
    lost.unlink()
    run_fct.run_fct(settings, quiet())
    assert ran == ["load0.6-seed1-pias"]


def test_a_damaged_result_is_measured_again(ran, undrawn, tmp_path):
    settings = replace(FEW, folder=tmp_path)
    run_fct.run_fct(settings, quiet())
    (half,) = (tmp_path / "passes").glob("load0.4-seed1-tcp-*")
    half.write_text(half.read_text()[:100])
    ran.clear()
    run_fct.run_fct(settings, quiet())
    assert ran == ["load0.4-seed1-tcp"]


def test_a_pass_on_a_busy_machine_is_marked(make_result):
    good = make_result("tcp", [100] * 10, [1e3] * 10)
    assert guards.trouble(good) == []
    assert "too busy" in guards.trouble(replace(good, idle_share=0.01))[0]
    assert "began more than" in guards.trouble(replace(good, late_us=[9000] + [0] * 9))[0]
    assert "1 unfinished of 10" in guards.trouble(replace(good, failures={"unfinished": 1}))[0]


def test_a_pass_with_less_idle_time_than_its_like_is_found_and_noted(make_result):
    alike = {
        name: replace(make_result(name, [100] * 10, [1e3] * 10), idle_share=share)
        for name, share in {"tcp": 0.50, "pias": 0.47, "qclimb": 0.41}.items()
    }
    assert guards.disturbed(alike) == ["qclimb"]
    (note,) = guards.uneven(alike)
    assert note.startswith("qclimb, load") and "41.0%" in note


def test_a_stored_pass_of_other_thresholds_is_measured_again(ran, undrawn, tmp_path):
    settings = replace(FEW, folder=tmp_path)
    run_fct.run_fct(settings, quiet())
    (path,) = (tmp_path / "passes").glob("load0.4-seed1-pias-*")
    result = run_fct.PassResult.load_file(path)
    replace(result, settings={"threshold_bytes": [1, 2]}).save(path)
    ran.clear()
    run_fct.run_fct(settings, quiet())
    assert ran == []  # nothing says what holds for the others
    replace(result, settings={"threshold_bytes": [1, 2]}).save(path)
    (tmp_path / "thresholds.json").write_text('{"0.4": [3, 4]}')
    run_fct.run_fct(settings, quiet())
    assert ran == ["load0.4-seed1-pias"]


def test_schemes_under_different_thresholds_are_noted(make_result):
    one = make_result("tcp", [100] * 10, [1e3] * 10)
    other = replace(one, scheme="pias", settings={"threshold_bytes": [5]})
    assert "different thresholds" in guards.uneven({"tcp": one, "pias": other})[0]


def test_several_forests_in_one_comparison_are_noted(make_result):
    one = replace(make_result("qclimb", [100], [1e3]), settings={"model": {"generation": 1, "report": {"rows": 5}}})
    other = replace(one, settings={"model": {"generation": 1, "report": {"rows": 6}}})
    assert guards.forests([one, one, make_result("tcp", [100], [1e3])]) == []
    (note,) = guards.forests([one, other, one])
    assert note.startswith("3 passes used 2 forests")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fct", "--loads", "0.4,x"], "'0.4,x' is not a list of numbers"),
        (["fct", "--loads", "1.2"], "each must be below 1"),
        (["fct", "--seeds", "1,1"], "none twice"),
        (["fct", "--schemes", "tcp,pfabric"], "'pfabric' is none of tcp"),
        (["fct", "--buffer-shares", "0,9"], "'0,9': expected each from -8 to 7"),
        (["fct", "--buffer-shares", "0,x"], "'0,x' is no list of whole numbers"),
    ],
)
def test_wrong_options_are_refused_with_exit_2(arguments, words):
    done = CliRunner().invoke(cli.run, arguments)
    assert done.exit_code == 2 and words in done.output


@pytest.mark.parametrize(("text", "seeds"), [("3", (1, 2, 3)), ("31,", (31,)), ("31,33", (31, 33))])
def test_a_number_without_a_comma_is_how_many_seeds(text, seeds):
    assert Numbers(int, ordinal=True).convert(text, None, None) == seeds


def test_the_command_knows_the_schemes_that_there_are():
    assert list(schemes.SCHEMES) == list(SCHEMES)
    assert SCHEMES[: len(COMPARED)] == COMPARED


def test_trace_make_writes_the_same_file_again(tmp_path):
    for name in ("a", "b"):
        arguments = ["make", "--load", "0.6", "--seed", "1", "--seconds", "3", "-o", str(tmp_path / name)]
        done = CliRunner().invoke(cli.trace, arguments)
        assert done.exit_code == 0 and "small" in done.output
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_trace_that_can_not_be_written_is_one_sentence_and_exit_2(tmp_path):
    place = tmp_path / "nowhere" / "a"
    done = CliRunner().invoke(cli.trace, ["make", "--load", "0.6", "--seed", "1", "--seconds", "3", "-o", str(place)])
    assert done.exit_code == 2
    assert f"no folder {place.parent}, expected one to write to" in done.output
