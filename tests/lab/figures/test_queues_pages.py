"""Big-Spine's and pFabric's pages: the theory is right, verdicts follow the numbers, each runs to its end."""

from itertools import combinations

import numpy as np
import pytest

from lab.figures.page import Scale
from lab.figures.pages.bigspine import fabric, fluid
from lab.figures.pages.book import BIGSPINE, PFABRIC
from lab.figures.pages.pfabric import fig16, fig17, section7
from lab.figures.pages.pfabric.mg1 import server
from lab.figures.pages.pfabric.queues import by_size
from lab.figures.sweep import run_all
from lab.sim.sizes import size_table
from tests.lab.figures.made import made

WEB_SEARCH = "websearch_pkts"
MILLISECONDS = 1
"""What a page counts that has no number of flows."""


def scale(*loads):
    return Scale("quick", 3, (1, 2, 3), loads)


@pytest.mark.parametrize(("load", "split_kb"), [(0.1, 853), (0.8, 1364)])
def test_two_queues_part_where_the_formula_had_been_minimised_by_hand(load, split_kb):
    assert server(WEB_SEARCH, load).best_ends(2)[0] / 1000 == pytest.approx(split_kb, rel=0.01)


def test_one_queue_is_pollaczek_and_khinchine():
    sizes = size_table(WEB_SEARCH).quantile((np.arange(50_000) + 0.5) / 50_000)
    wait = 0.7 / sizes.mean() * (sizes**2).mean() / (2 * (1 - 0.7))
    assert server(WEB_SEARCH, 0.7).cost(()) == pytest.approx(1 + wait * (1 / sizes).mean())


def test_no_two_thresholds_on_a_grid_are_better_than_the_shortest_path():
    model = server(WEB_SEARCH, 0.8)
    best = model.cost(model.best_ends(3))
    tried = [model.cost(ends) for ends in combinations(np.geomspace(10_000, 25e6, 25), 2)]
    assert best <= min(tried) < 1.05 * best


def test_more_queues_never_cost_more():
    model = server(WEB_SEARCH, 0.6)
    costs = [model.cost(model.best_ends(queues)) for queues in (2, 3, 4, 8)]
    assert costs == sorted(costs, reverse=True)
    assert all(a < b for a, b in zip(model.best_ends(8), model.best_ends(8)[1:], strict=False))


def test_a_flow_of_known_size_keeps_the_queue_of_its_size():
    assert by_size((880_000,)).tagging == "qclimb-fp"
    assert by_size((1, 2, 3)).priorities == 4


def test_a_big_spine_has_a_threshold_a_priority_and_shares_of_all_spines():
    wide = fabric.over(fabric.BIG_SPINE, "qclimb", 0.8, 10, 1)
    assert wide.scheme.priorities == 5 and wide.routing == "priority"
    assert len(wide.spine_shares) == 4 and sum(wide.spine_shares) == pytest.approx(10_000, abs=4)
    plain = fabric.over(fabric.ECMP_2, "pias", 0.5, 10, 1, fabric.FULL)
    assert plain.scheme.priorities == 2 and plain.routing == "ecmp" and plain.scheme.uplink_mark_bytes == 90_000


def test_logical_priorities_are_counted_as_the_paper_does():
    names = {"MLFQ N=1": 1, "MLFQ N=2, 500 KB": 2, "MLFQ N=5": 5, "MP-MLFQ N=2 K=4": 5, "MP-MLFQ N=2 K=6": 7}
    assert {name: fluid.priorities("", name, 0.8) for name in names} == names


@pytest.mark.parametrize(
    ("equal", "word"),
    [
        (1 / 0.68, "1 reproduced"),
        (1.2, "1 in direction only"),
        (1.01, "1 not reproduced"),
        (0.9, "1 not reproduced"),
    ],
)
def test_17c_says_reproduced_of_thirty_per_cent_only(equal, word):
    points = {
        ("", name, 0.8, seed): made(*[value] * 3)
        for seed in (1, 2, 3)
        for name, value in (("4 queues", 1.0), (fig17.EQUAL, equal))
    }
    assert f"of 1 claims {word}" in fig17.C.tell(scale(0.8), points).verdict


@pytest.mark.parametrize(
    ("best_kb", "near", "word"),
    [
        ((880, 1740), 1.5, "reproduced"),
        ((880, 500), 1.5, "not reproduced"),
        ((3400, 500), 1.5, "not reproduced"),
        ((2400, 1300), 1.005, "not resolved, too flat to decide"),
    ],
)
def test_16_holds_the_best_split_against_the_papers(best_kb, near, word):
    points = {
        ("", f"{split}", load, seed): made(*[1.0 if split == best else near] * 3)
        for load, best in zip((0.1, 0.8), best_kb, strict=True)
        for split in fig16.SPLITS_KB
        for seed in (1, 2, 3)
    }
    story = fig16.PAGE.tell(scale(0.1, 0.8), points)
    assert story.verdict.startswith(f"{word}: ")
    assert [row["best split, KB"] for row in story.rows] == [str(best) for best in best_kb]


@pytest.mark.parametrize(
    ("mp", "mice", "elephants"),
    [((1.069, 1.84, 4.68), "reproduced", "reproduced"), ((1.4, 1.0, 5.7), "not reproduced", "not reproduced")],
)
def test_5c_asks_which_class_gains_least(mp, mice, elephants):
    values = fluid.AUTHORS_BY_CLASS | {fluid.MP: mp}
    points = {("", name, 0.8, seed): made(*values[name]) for name in fluid.SCHEMES for seed in (1, 2, 3)}
    small, large, *_ = fluid.PAGE_C.tell(scale(0.8), points).verdicts
    assert small.endswith(f": {mice}.") and large.endswith(f": {elephants}.")


@pytest.mark.parametrize("page", [*BIGSPINE, *PFABRIC], ids=lambda page: page.name)
def test_every_page_runs_and_tells(page, tmp_path):
    amount = MILLISECONDS if page is section7.STABILITY else 24
    small = Scale("quick", amount, (1,), (0.5, 0.8))
    story = page.tell(small, run_all(page.runs(small), tmp_path))
    assert story.rows and story.panels and story.verdicts
    assert story.verdict and "\n" not in story.verdict
    assert any("oad" in line for line in page.settings), "a page says what load is"
    assert len({tuple(row) for row in story.rows}) == 1
