"""PDQ's pages: the flows of its query aggregation, and a page told from a few of them."""

from dataclasses import replace

import numpy as np
import pytest

from lab.figures.page import Scale
from lab.figures.pages import book
from lab.figures.pages.pdq import aggregation, deadlines, dynamics, example, lines, patterns, settings
from lab.figures.sweep import run_all

TWO = Scale("quick", 25, (1, 2), (1.0,))


def test_flows_come_from_eleven_hosts_as_evenly_as_they_go():
    found = aggregation.flows(25, 100_000, 1, True)
    counts = np.bincount(found.source, minlength=12)
    assert counts[0] == 0 and set(counts[1:]) == {2, 3} and (found.target == 0).all() and (found.start_ps == 0).all()
    assert found.size_bytes.min() >= 2_000 and found.size_bytes.max() <= 198_000
    assert found.deadline_ps.min() >= 3 * 10**9
    assert aggregation.flows(25, 100_000, 1, False).deadline_ps is None


@pytest.mark.parametrize(("deadlines", "unit"), [(True, 1.0), (False, 1000.0)])
def test_a_page_is_run_and_told(deadlines, unit, tmp_path):
    which = aggregation.FIGURES["a" if deadlines else "d"]
    figure = replace(which, values=(1, 5), made=lambda n, seed: aggregation.flows(n, 20_000, seed, deadlines))
    story = figure.tell(TWO, run_all(figure.runs(TWO), tmp_path, 2))
    assert [row["flows"] for row in story.rows] == ["1", "5"]
    assert story.rows[0]["PDQ(Full)"].startswith("1.00 " if deadlines else "0.")
    assert len(story.verdicts) == 1 + len(figure.claims) and "PDQ(Full) over: optimum" in story.verdicts[0]
    assert len(story.panels[0].series) == 1 + len(figure.schemes)


def test_the_most_flows_lie_where_the_share_falls_below_99_of_a_hundred():
    assert lines.most_at((1, 5, 10), (1.0, 1.0, 0.98)) == 7.5
    assert lines.most_at((1, 5), (1.0, 1.0)) == 5 and lines.most_at((2, 5), (0.5, 1.0)) < 1


def test_rounds_know_nothing_of_each_other_and_the_optimum_counts_them_one_by_one():
    found = settings.at_once(settings.to_one(12), 5, 100_000, (1, 2), 3, 20.0)
    starts = np.unique(found.start_ps)
    assert len(found.start_ps) == 15 and np.diff(starts).min() > 250 * settings.MS
    assert (found.deadline_ps - found.start_ps >= 3 * settings.MS).all()
    each = [replace_start(found, found.start_ps == start, start) for start in starts]
    assert lines.most_of(found, 1e9) == pytest.approx(np.mean([lines.most_of(one, 1e9) for one in each]))


def replace_start(found, at, start):
    parts = (found.start_ps[at] - start, found.size_bytes[at], found.source[at], found.target[at])
    return type(found)(*parts, deadline_ps=found.deadline_ps[at] - start)


def test_a_permutation_has_each_host_send_to_one_and_hear_of_one():
    source, target = settings.permuted(16)(np.random.default_rng(1), 32)
    assert (np.bincount(source) == 2).all() and (np.bincount(target) == 2).all() and (source != target).all()
    assert len({*zip(source.tolist(), target.tolist(), strict=True)}) == 16


def test_the_example_of_three_flows_is_the_papers(tmp_path):
    scale = example.PAGE.scales["quick"]
    story = example.tell(scale, run_all(example.runs(scale), tmp_path, 2))
    of = {row[""]: row for row in story.rows}
    assert of["SJF and EDF, worked out"]["mean"] == "3.33" and of["fair sharing, worked out"]["mean"] == "4.67"
    assert of["PDQ, packets"]["orders with all in time"] == "6 of 6"
    assert float(of["PDQ, packets"]["mean"].split()[0]) == pytest.approx(10 / 3, rel=0.05)


def test_rates_and_queue_over_time_are_told(tmp_path):
    scale = dynamics.PAGE_6.scales["quick"]
    story = dynamics.PAGE_6.tell(scale, run_all(dynamics.PAGE_6.runs(scale), tmp_path, 1))
    assert len(story.rows) == 5 and [panel.title for panel in story.panels][1] == "utilisation"
    assert max(story.panels[1].series[0].values) == pytest.approx(1.0, abs=0.05)


def test_lines_and_capacities_are_told_from_few_points(tmp_path):
    scale = Scale("quick", 2, (1, 2), (1.0,))
    figure = replace(deadlines.FIGURE, values=(20,), schemes=("PDQ(Full)", "D3", "8 priorities"), counts=(1, 4))
    story = figure.tell(scale, run_all(figure.runs(scale), tmp_path, 2))
    assert set(story.rows[0]) == {"mean deadline, ms", "optimum", "PDQ(Full)", "D3", "8 priorities"}
    assert len(story.verdicts) == len(figure.claims) and len(story.panels[0].series) == 4
    beside = replace(patterns.B, values=(1.0,), names=("stride(1)",), schemes=("PDQ(Full)", "RCP"), claims=())
    told = beside.tell(scale, run_all(beside.runs(scale), tmp_path, 2))
    assert float(told.rows[0]["RCP"].split()[0]) > 1.0 and told.panels[0].names == ("stride(1)",)


@pytest.mark.parametrize("page", [page for page in book.PDQ if page.name > "pdq-4"], ids=lambda page: page.name)
def test_all_points_of_a_page_can_be_named(page):
    found = page.runs(Scale("quick", 1, (1,), (1.0,)))
    assert 0 < len(found) < 400
