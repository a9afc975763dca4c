"""QCLIMB's pages say what their points say beside the paper's numbers."""

import pytest

from lab.experiment.intervals import proportion
from lab.figures.page import Scale
from lab.figures.pages.book import PAGES
from lab.figures.pages.qclimb import bounds, dctcp, fig23_why, settings, tables
from lab.figures.pages.qclimb.alphas import ByAlpha
from lab.figures.pages.qclimb.fabric import OURS, TRACES
from lab.figures.pages.qclimb.paper import TABLE_5, fig_23, fig_23_and_24, table_5
from lab.sim.sizes import size_table
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.thresholds import Objective, optimise
from tests.lab.figures.made import made

SEEDS = (1, 2, 3)


def test_the_slacks_page_names_the_best():
    scale = Scale("made", 3, SEEDS, (0.7,))
    found = {(case, "PIAS", 0.7, seed): made() for case in settings.GRID_27.cases for seed in SEEDS}
    found |= {(key[0], "QCLIMB", *key[2:]): made(0.8, 1, 1) for key in list(found)}
    found |= {("50", "QCLIMB", 0.7, seed): made(0.6, 0.9, 0.9) for seed in SEEDS}
    told = settings.GRID_27.tell(scale, found)
    assert "S = 50 KB" in told.verdict and "16.7%" in told.verdict


def of_tables(ours, strict, tolerant, lost=0):
    """Points with so many bytes out of order on average."""

    def point(waiting, drops=0):
        counters = {f"drops_{which}": drops for which in ("small", "medium", "large")}
        return made(waiting_sum=waiting, delivered_packets=tables.PAYLOAD, losses_told=0, timeouts=0, **counters)

    waiting = {"QCLIMB": ours, tables.TCP: strict, tables.TOLERANT: tolerant}
    return {
        (case, scheme, load, seed): point(waiting.get(scheme, 1.0), 1000 if scheme == "pFabric" else lost)
        for case in tables.CASES
        for load in (0.5, 0.7)
        for scheme in tables.GRID.schemes
        if tables.run(case, scheme, load, 24, 1) is not None
        for seed in SEEDS
    }


def test_table_3_is_judged_load_by_load_and_by_what_it_is_beside():
    scale = Scale("made", 3, SEEDS, (0.5, 0.7))
    story = tables.GRID.tell(scale, of_tables(ours=0.85, strict=0.1, tolerant=1.0))
    tolerant, _, strict, _ = story.verdicts[:4]
    assert tolerant.startswith("Table 3 beside a TCP")
    assert "jobs: of 6 claims 4 reproduced" in tolerant and "2 in direction only" in tolerant
    assert strict.endswith("jobs: of 6 claims 6 not reproduced.")
    assert "here 0.85 [0.85, 0.85] at 0.7, the paper 0.84 at 0.7: reproduced, within 2 %." in " ".join(story.verdicts)


def test_a_run_that_lost_no_packet_still_has_a_ratio():
    scale = Scale("made", 3, SEEDS, (0.5, 0.7))
    story = tables.GRID.tell(scale, of_tables(1.0, 1.0, 1.0))
    assert "K-Means, QCLIMB / pFabric, overall packets lost: here 0.00" in story.verdict
    assert tables.lost(made(drops_small=0, drops_medium=0, drops_large=0)) == 0.5
    assert tables.lost(made(drops_small=1, drops_medium=2, drops_large=4)) == 7


def test_table_5_is_held_against_load_by_load():
    claims = table_5(TRACES)
    assert len(claims) == 3 * 4 * 3 * 2 and {claim.needs.loads for claim in claims} == {
        (load,) for load in TABLE_5["SGD"]
    }
    (one,) = [
        claim
        for claim in claims
        if (claim.cases, claim.base, claim.statistic, claim.needs.loads) == (("PageRank",), "PIAS", "mean", (0.7,))
    ]
    assert one.needs.low == one.needs.high == pytest.approx(1 / 1.47)


def test_ranges_of_the_simulations_are_over_seven_loads():
    assert {len(claim.needs.loads) for claim in fig_23_and_24(TRACES)} == {7}
    assert {claim.cases for claim in fig_23("PageRank", *dctcp.KINDS)} == {(case,) for case in dctcp.KINDS}


def both_alphas(of_0):
    """The slacks page's points: QCLIMB at 0.8 of PIAS by alpha from 1, and `of_0` by alpha from 0."""
    scale = Scale("made", 3, SEEDS, (0.7,))
    values = {(1.0, "QCLIMB"): 0.8, (0.0, "QCLIMB"): of_0}
    page = ByAlpha(settings.GRID_27)
    return page.tell(scale, {key: made(values.get((key[0], key[2]), 1.0), 1, 1) for key in page.runs(scale)})


def test_a_page_has_its_points_by_both_alphas_and_those_without_dctcp_once():
    scale = Scale("made", 48, (1,), (0.7,))
    points = ByAlpha(settings.GRID_28).runs(scale)
    begins = {(key[0], point.scheme.dctcp_alpha) for key, point in points.items() if key[2] == "QCLIMB"}
    assert begins == {(1.0, 1.0), (0.0, 0.0)}
    assert all(points[0.0, *key[1:]] == points[1.0, *key[1:]] for key in points if key[2] != "QCLIMB")
    assert {key[0] for key in ByAlpha(settings.GRID_28).runs(Scale("quick", 48, (1,), (0.7,)))} == {1.0}


def test_what_alpha_changes_is_said_and_what_it_does_not_is_counted():
    same, changed = both_alphas(0.8), both_alphas(1.2)
    assert same.verdict.startswith("by either alpha of 3 claims")
    assert len(same.rows) == len(changed.rows) == 12 and [row["alpha"] for row in same.rows] == ["1"] * 6 + ["0"] * 6
    assert len(same.panels) == 4 and same.panels[-1].title.endswith(", alpha 0")
    assert not any(line.startswith("Alpha from 0") for line in same.verdicts)
    assert any(
        line.startswith("Alpha from 0: Fig. 27") and line.endswith("not reproduced.") for line in changed.verdicts
    )
    assert changed.verdicts[-1].startswith("Alpha from 0: the other ")


def test_coverage_is_held_against_table_2_by_its_interval():
    each = {
        "one": (proportion(99_999, 100_000), 500.0, 0.5),
        "two": (proportion(999, 1_000), 20_000.0, 0.987),
        "three": (proportion(990, 1_000), 20_000.0, 0.987),
    }
    shallow, _, cover, gap = bounds.verdicts({(5, 10): each, (10, 100): each})
    assert shallow.endswith(
        "the paper 99.994 to 100.000 %: covers as much: one; not resolved: two; covers less: three."
    )
    assert "Table 2, 100 trees of depth 10" in cover and "99.000 to 99.999 %" in cover
    assert cover.endswith(": covers as much: one; not resolved: two; covers less: three.")
    assert "as close in one; but that is 50% to 99% of these flows'" in gap and "500 to 20,000 B" in gap


def test_our_thresholds_are_the_optimisers():
    for trace, table_name in TRACES.items():
        table = size_table(table_name)
        sizes = SizeDistribution.from_cdf(zip(table.size_bytes.tolist(), table.share.tolist(), strict=True))
        assert optimise(sizes, 8, 0.7, Objective.SLOWDOWN, segment_bytes=1460).threshold_bytes == OURS[trace]
        if trace == "PageRank":
            two = optimise(sizes, 2, 0.7, Objective.SLOWDOWN, segment_bytes=1460)
            assert two.threshold_bytes == (settings.TWO_QUEUES["ours, 1.1 MB"],)
            cost = optimise(sizes, 8, 0.7, Objective.PIAS, segment_bytes=1460)
            assert cost.threshold_bytes == fig23_why.OURS_PIAS_COST


def test_what_matters_is_named_and_one_load_reproduces_nothing():
    scale = Scale("made", 3, SEEDS, (fig23_why.LOAD,))
    counters = {"timeouts": 0}
    ours = {name: {"PIAS": 1.0, "QCLIMB": 1.0, "QCLIMB-PS": 0.95, "pFabric": 0.9} for name in fig23_why.BY_NAME}
    ours["permutation"] |= {"QCLIMB": 1.04, "QCLIMB-PS": 1.05}
    ours["jobs of 16: many to one"] |= {"QCLIMB": 0.9, "QCLIMB-PS": 0.8}
    found = {
        (name, scheme, fig23_why.LOAD, seed): made(value, value, value, **counters)
        for name, each in ours.items()
        for scheme, value in each.items()
        for seed in SEEDS
    }
    base, perfect, forecast, *_, last = fig23_why.GRID.tell(scale, found).verdicts
    assert "1.00, with perfect sizes 0.95" in base
    assert "with: jobs of 16: many to one (-0.15); shrinks with: permutation (+0.10)" in perfect
    assert "with: jobs of 16: many to one (-0.10); shrinks with: nothing" in forecast
    assert last.endswith("the sign beyond doubt: jobs of 16: many to one. Not resolved: none.")


@pytest.mark.parametrize("name", ["qclimb-24", "qclimb-errors", "qclimb-21", "qclimb-27", "qclimb-28", "qclimb-tables"])
def test_a_page_of_jobs_is_run_and_told(name, tmp_path):
    from lab.figures.sweep import run_all

    page = PAGES[name]
    scale = Scale("quick", 48, (1,), (0.7,))
    story = page.tell(scale, run_all(page.runs(scale), tmp_path, 2))
    assert story.rows and story.panels and story.verdicts and story.verdict
