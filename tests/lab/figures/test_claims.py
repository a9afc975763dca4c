"""Claims are held against numbers and nothing else, and pages of a grid say what their points say."""

from dataclasses import replace

import numpy as np
import pytest

from lab.figures.book import PAGES
from lab.figures.claims import ALLOWED, Claim, distance, in_a_line, judged, status
from lab.figures.grid import Grid
from lab.figures.page import Scale
from lab.figures.points import Point
from lab.figures.qclimb_bounds import verdicts as bounds_verdicts
from lab.figures.qclimb_jobs import OURS
from lab.figures.qclimb_settings import TWO_QUEUES, tell_27
from lab.figures.qclimb_tables import TABLE_3, verdicts
from lab.sim.sizes import size_table
from orchestrator.thresholds import Objective, SizeDistribution, optimise

LESS = Claim("Fig. 0", "A", "B", "mean", "all", 0.6, 0.8)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([0.6, 0.8], "reproduced"),
        ([0.7, 0.84], "reproduced within 5 %"),
        ([0.57], "reproduced within 5 %"),
        ([0.7, 0.95], "the direction only"),
        ([0.3], "the direction only"),
        ([0.7, 1.02], "not reproduced"),
        ([0.99], "not reproduced"),
        ([float("nan")], "not measured (no such flows)"),
    ],
)
def test_a_claim_is_reproduced_as_far_as_its_worst_number_is(found, said):
    assert status(LESS, found) == said
    assert judged(LESS, found).endswith(f"the paper 0.60 to 0.80: {said}.")


def test_no_difference_reproduces_no_claim_of_one():
    less, more = replace(LESS, high=0.91), replace(LESS, low=1.05, high=1.2)
    assert status(less, [0.97]) == "reproduced within 7 %" and status(less, [0.97, 1.0]) == "not reproduced"
    assert status(more, [1.03]) == "reproduced within 2 %" and status(more, [1.01]) == "not reproduced"


def test_a_range_that_reaches_one_has_no_direction():
    assert status(Claim("Fig. 0", "A", "B", "mean", "all", 0.6, 1.0), [0.5]) == "not reproduced"
    assert status(Claim("Fig. 0", "A", "B", "mean", "all", 1.1, 1.2), [1.5]) == "the direction only"


def test_no_difference_is_not_up_to_any():
    less, more = replace(LESS, high=1.0), replace(LESS, low=1.0, high=1.8)
    assert status(less, [0.99, 1.0]) == status(more, [1.0, 1.01]) == ALLOWED
    assert status(less, [0.97, 1.0]) == status(more, [1.0, 1.03]) == "reproduced"
    assert status(replace(LESS, low=0.99, high=1.0), [1.0]) == "reproduced"
    assert "0 reproduced (within 10 %), 1 without a difference where" in in_a_line([less], [[1.0]])


def test_a_loss_where_the_paper_gains_is_never_reproduced():
    claim = Claim("Fig. 0", "A", "B", "mean", "all", 0.6, 1.0)
    assert status(claim, [0.7, 1.04]) == "reproduced within 4 %"
    assert status(claim, [0.7, 1.06]) == "not reproduced"


def test_distance_is_a_share_of_the_nearer_end():
    assert distance(0.5, 1.0, [0.5, 1.0]) == 0
    assert distance(0.5, 1.0, [1.2]) == pytest.approx(0.2)
    assert distance(0.5, 1.0, [0.4, 1.1]) == pytest.approx(0.2)


def made(fct):
    size = np.array([1_000, 200_000, 20_000_000])
    return Point(size, np.array(fct, float), np.ones(3), {})


def test_a_grids_table_and_verdicts_are_ratios_of_the_points():
    scale = Scale("made", 3, (1, 2), (0.5,))
    grid = Grid(("one",), ("B", "A"), "B", lambda *words: None, (LESS,))
    points = {("one", "B", 0.5, seed): made([10, 20, 30]) for seed in (1, 2)}
    points |= {("one", "A", 0.5, seed): made([5, 10, 30]) for seed in (1, 2)}
    story = grid.tell(scale, points)
    (row,) = story.rows
    assert row["overall mean / B"] == "0.75 +- 0.00" and row["small mean / B"] == "0.50 +- 0.00"
    assert row["large mean / B"] == "1.00 +- 0.00"
    assert story.verdicts == [
        "Fig. 0, A / B, overall mean: here 0.75, the paper 0.60 to 0.80: reproduced.",
    ]
    assert (
        story.verdict
        == in_a_line([LESS], [[0.75]])
        == ("of 1 claims 1 reproduced (within 10 %), 0 in direction only, 0 not.")
    )


def test_the_slacks_page_names_the_best():
    scale = Scale("made", 3, (1,), (0.7,))
    points = {(case, "PIAS", 0.7, 1): made([10, 20, 30]) for case in ("0", "20", "50", "100", "200", "1000")}
    points |= {(key[0], "QCLIMB", 0.7, 1): made([8, 20, 30]) for key in list(points)}
    points["50", "QCLIMB", 0.7, 1] = made([6, 18, 27])
    assert (
        "Best overall mean at S = 50 KB (the paper: 100 KB); from best to worst 13.7%."
        in tell_27(scale, points).verdict
    )


def test_the_tables_verdicts_follow_their_numbers():
    tolerant, strict, four = verdicts([2.0, 3.0], [0.5, 0.8], {"QCLIMB": (30.0, 20.0), "pFabric": (100.0, 0.0)})
    assert tolerant.endswith(": reproduced.") and "0.50 to 0.80" in tolerant
    assert strict.endswith("not reproduced.") and "2.00 to 3.00" in strict
    assert "0.300 of it" in four and "20 (67%" in four
    assert verdicts([0.1, 0.8], [0.5], {})[1].endswith("the direction only.")
    assert len(verdicts([0.1, 0.8], [0.5], {})) == 2 and len(verdicts([], [0.5], {})) == 1
    assert all(after < before for each in TABLE_3.values() for before, after in each.values())


def test_bounds_are_held_against_table_2():
    each = {"one": (99.95, 500.0, 0.5), "two": (99.8, 20_000.0, 0.987)}
    shallow, _, cover, gap = bounds_verdicts({(5, 10): each, (10, 100): each})
    assert shallow.endswith("the paper 99.994 to 100.000 %: reproduced by none of 2.")
    assert "Table 2, 100 trees of depth 10" in cover and "99.800 to 99.950 %" in cover
    assert cover.endswith("reproduced by one of 2.")
    assert "as close in one; but that is 50% to 99% of these flows'" in gap and "500 to 20,000 B" in gap


def test_our_thresholds_are_the_optimisers():
    for trace, name in (("K-Means", "flux_kmeans"), ("PageRank", "flux_pagerank"), ("SGD", "flux_sgd")):
        table = size_table(f"{name}_est_bytes")
        sizes = SizeDistribution.from_cdf(zip(table.size_bytes.tolist(), table.share.tolist(), strict=True))
        assert optimise(sizes, 8, 0.7, Objective.SLOWDOWN, segment_bytes=1460).threshold_bytes == OURS[trace]
        if trace == "PageRank":
            two = optimise(sizes, 2, 0.7, Objective.SLOWDOWN, segment_bytes=1460)
            assert two.threshold_bytes == (TWO_QUEUES["ours, 1.1 MB"],)


@pytest.mark.parametrize("name", ["qclimb-24", "qclimb-errors", "qclimb-21", "qclimb-27", "qclimb-28", "qclimb-tables"])
def test_a_page_of_jobs_is_run_and_told(name, tmp_path):
    from lab.figures.sweep import run_all

    page = PAGES[name]
    scale = Scale("quick", 48, (1,), (0.7,))
    story = page.tell(scale, run_all(page.runs(scale), tmp_path, 2))
    assert story.rows and story.panels and story.verdicts and story.verdict
