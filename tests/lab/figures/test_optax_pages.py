"""OPTAX's pages: the tasks that they are of, and each page told from a few of its points."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from lab.cli import lab
from lab.cli.figures import figures
from lab.figures.page import Scale
from lab.figures.pages.optax import facebook, mixed, small
from lab.figures.pages.optax.tasks import BASE, OURS, gain_of, together, took_us
from lab.figures.sweep import run_all
from lab.sim.errors import MissingData

TRACE = """4 5
1 0 2 0 1 1 2:8.0
2 10 1 0 1 3:1.0
3 20 1 1 2 2:1.0 3:0.5
4 400 3 0 1 2 2 0:30.0 3:6.0
5 500 1 2 1 2:0.25
"""


@pytest.fixture
def trace(tmp_path, monkeypatch):
    path = tmp_path / "trace.txt"
    path.write_text(TRACE)
    monkeypatch.setenv(facebook.VARIABLE, str(path))
    return path


def test_tasks_come_from_as_many_servers_as_they_have_flows():
    found = together(5, 8, 1_000, 3).coflows(np.random.default_rng(3))
    for task in range(5):
        sources = found.source[found.coflow == task]
        assert len(set(sources)) == 8 and sources.min() >= 1
    assert (found.target == 0).all() and found.start_ps.max() < 100 * 10**6


@pytest.mark.parametrize("mix", mixed.TABLE_1)
def test_a_mix_has_table_1s_shares_and_its_load(mix):
    load = mixed.mixed(mix, 400, 1)
    long, wide = load.flow_bytes > 1 << 20, load.width >= 8
    shares = [(long == a) & (wide == b) for a in (False, True) for b in (False, True)]
    assert [each.mean() for each in shares] == pytest.approx(mixed.TABLE_1[mix], abs=0.003)
    offered = (load.width * load.flow_bytes).sum() * 1500 / 1460 * 8 / (load.start_ps[-1] / 1e12) / 1e10
    assert 0.4 < offered < 0.9


def test_a_figure_of_small_tasks_is_run_and_told(tmp_path):
    figure, scale = replace(small.FIG_10, values=(2, 4)), Scale("quick", 100, (1, 2), (1.0,))
    points = run_all(figure.runs(scale), tmp_path, 2)
    story = figure.tell(scale, points)
    assert [row["tasks"] for row in story.rows] == ["2", "4"] and len(story.panels[0].series) == 2
    assert "2 tasks, ICTCP / OPTAX" in story.verdicts[0]
    loads = {seed: figure.made("", 2, 100, seed) for seed in scale.seeds}
    assert 1.1 < gain_of(points, ("", 2), loads, OURS).value < 2
    assert gain_of(points, ("", 2), loads, BASE).value == 1
    assert len(took_us(loads[1], points["", 2, OURS, 1])) == 2


def test_what_is_not_small_is_no_part_of_a_claim():
    assert small.FIG_11._is_small("4 MB", 4) and not small.FIG_11._is_small("4 MB", 2)


def test_mixes_are_told_by_class_and_the_two_levels_beside_each_other(tmp_path, monkeypatch):
    scale = Scale("quick", 20, (1, 2), (1.0,))
    monkeypatch.setattr(mixed, "LONG", ((1 << 20) + 1, 1_200_000))
    monkeypatch.setattr(mixed, "TABLE_1", {"Normal": mixed.TABLE_1["Normal"]})
    story = mixed.tell_13(scale, run_all(mixed.runs_13(scale), tmp_path, 2))
    assert [row["mix"] for row in story.rows] == ["Normal"] and len(story.verdicts) == 5
    joined = mixed.tell_14(scale, run_all(mixed.runs_14(scale), tmp_path, 2))
    assert [row["scheduler"] for row in joined.rows][:5] == ["priority", "OPTAX", "Varys", "P+V", "O+V"]
    assert joined.rows[-1]["level"] == "packets" and "rate by rate" in joined.verdicts[-1]


def test_the_trace_is_told_under_every_policy(trace, tmp_path):
    scale = Scale("quick", 5, (1,), (1.0,))
    story = facebook.tell(scale, run_all(facebook.runs(scale), tmp_path, 2))
    assert [row["policy"] for row in story.rows][: len(facebook.POLICIES)] == list(facebook.POLICIES)
    assert all(float(row["mean CCT, s"]) > 0 for row in story.rows)
    assert "5 coflows, 12 flows" in story.verdicts[0]


def test_the_first_coflows_of_a_trace_are_a_trace(trace):
    whole = facebook.read_trace(trace)
    part = facebook.first_of(whole, 3, deadlines=True)
    assert len(part.start_ps) == 3 and part.width.tolist() == [2, 1, 2]
    more = (part.deadline_ps - part.start_ps) / 1e12 / part.bottleneck_s(1e9)
    assert (more >= 1 - 1e-9).all() and (more <= 2).all()


def test_a_page_without_its_trace_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setenv(facebook.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(MissingData, match=f"is not at {tmp_path}/none; {facebook.VARIABLE}=PATH names it"):
        facebook.runs(facebook.PAGE.scales["quick"])
    arguments = ["--quick", "--output", str(tmp_path / "o"), "--cache", str(tmp_path / "c")]
    alone = CliRunner().invoke(figures, ["optax-fb2010", *arguments])
    assert alone.exit_code == 2 and "is not at" in alone.output
    beside = CliRunner().invoke(figures, ["optax-fb2010", "optax-10", *arguments])
    assert beside.exit_code == 0 and "optax-fb2010 is left out" in beside.output
    assert (tmp_path / "o/optax-10.md").exists()


def test_the_command_tells_a_traces_completion_times(trace, tmp_path):
    told = CliRunner().invoke(lab, ["coflow", str(trace), "--policy", "varys", "--policy", "optax-aalo"])
    assert told.exit_code == 0, told.output
    assert "5 coflows, 12 flows" in told.output and "optax-aalo" in told.output
    for words, said in (
        (["--policy", "sebf"], "policy is 'sebf', expected one of fair"),
        (["--gbps", "0"], "gbps is 0.0, expected above 0"),
        (["--gbps", "inf"], "gbps is inf, expected above 0, below 1000000"),
        (["--gbps", "7"], "rate_bps is 7000000000: a byte must take whole picoseconds"),
        (["--flow-ends-ms", "nan"], "flow_ends_ms is nan"),
    ):
        refused = CliRunner().invoke(lab, ["coflow", str(trace), *words])
        assert refused.exit_code == 2 and said in refused.output
    missing = CliRunner().invoke(lab, ["coflow", str(tmp_path / "none")])
    assert missing.exit_code == 2 and "can't be read: No such file" in missing.output
