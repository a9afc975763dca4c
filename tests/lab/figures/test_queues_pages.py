"""Big-Spine's and pFabric's pages: the theory is right, verdicts follow the numbers, each runs to its end."""

from itertools import combinations

import numpy as np
import pytest

from lab.figures import bigspine_5a, bigspine_5c, bigspine_fabric, bigspine_variants, pfabric_16, pfabric_17
from lab.figures.book import BIGSPINE, PFABRIC
from lab.figures.mg1 import Mg1
from lab.figures.page import Scale
from lab.figures.pfabric_queues import by_size
from lab.figures.points import Point
from lab.figures.sweep import run_all
from lab.sim.sizes import size_table

WEB_SEARCH = "websearch_pkts"


def point(small=1.0, medium=1.0, large=1.0):
    """Three flows, one a class, with these slowdowns."""
    slowdown = np.array([small, medium, large])
    counters = {"data_packets": 1000, "drops": 0, "retransmissions": 0}
    return Point(np.array([1_000, 1_000_000, 20_000_000]), 100 * slowdown, slowdown, counters)


def scale(*loads):
    return Scale("quick", 3, (1, 2, 3), loads)


@pytest.mark.parametrize(("load", "split_kb"), [(0.1, 853), (0.8, 1364)])
def test_two_queues_part_where_the_formula_had_been_minimised_by_hand(load, split_kb):
    assert Mg1(WEB_SEARCH, load).best_ends(2)[0] / 1000 == pytest.approx(split_kb, rel=0.01)


def test_one_queue_is_pollaczek_and_khinchine():
    sizes = size_table(WEB_SEARCH).quantile((np.arange(50_000) + 0.5) / 50_000)
    wait = 0.7 / sizes.mean() * (sizes**2).mean() / (2 * (1 - 0.7))
    assert Mg1(WEB_SEARCH, 0.7).cost(()) == pytest.approx(1 + wait * (1 / sizes).mean())


def test_no_two_thresholds_on_a_grid_are_better_than_the_shortest_path():
    model = Mg1(WEB_SEARCH, 0.8)
    best = model.cost(model.best_ends(3))
    tried = [model.cost(ends) for ends in combinations(np.geomspace(10_000, 25e6, 25), 2)]
    assert best <= min(tried) < 1.05 * best


def test_more_queues_never_cost_more():
    model = Mg1(WEB_SEARCH, 0.6)
    costs = [model.cost(model.best_ends(queues)) for queues in (2, 3, 4, 8)]
    assert costs == sorted(costs, reverse=True)
    assert all(a < b for a, b in zip(model.best_ends(8), model.best_ends(8)[1:], strict=False))


def test_a_flow_of_known_size_keeps_the_queue_of_its_size():
    assert by_size((880_000,)).tagging == "qclimb-fp"
    assert by_size((1, 2, 3)).priorities == 4


def test_a_big_spine_has_a_threshold_a_priority_and_shares_of_all_spines():
    scheme, routing = bigspine_fabric.over(bigspine_fabric.BIG_SPINE, "qclimb", 0.8, bigspine_fabric.NARROW)
    assert scheme.priorities == 5 and routing["routing"] == "priority"
    assert len(routing["spine_shares"]) == 4 and sum(routing["spine_shares"]) == pytest.approx(10_000, abs=4)
    plain, none = bigspine_fabric.over(bigspine_fabric.ECMP_2, "pias", 0.5, bigspine_fabric.FULL)
    assert plain.priorities == 2 and none == {} and plain.uplink_mark_bytes == 90_000


def test_logical_priorities_are_counted_as_the_paper_does():
    names = {"MLFQ N=1": 1, "MLFQ N=2, 500 KB": 2, "MLFQ N=5": 5, "MP-MLFQ N=2 K=4": 5, "MP-MLFQ N=2 K=6": 7}
    assert {name: bigspine_variants.priorities(name) for name in names} == names


@pytest.mark.parametrize(
    ("equal", "word"), [(2.0, "reproduced"), (1.2, "direction reproduced"), (0.9, "not reproduced")]
)
def test_17c_says_reproduced_of_more_than_thirty_per_cent_only(equal, word):
    points = {
        (name, 0.8, seed): point(*[value] * 3)
        for seed in (1, 2, 3)
        for name, value in (("4 queues", 1.0), (pfabric_17.EQUAL, equal))
    }
    assert pfabric_17.tell_c(scale(0.8), points).verdict.startswith(f"{word}: ")


@pytest.mark.parametrize(
    ("best_kb", "word"),
    [((880, 1740), "reproduced"), ((880, 500), "reproduced in part"), ((3400, 500), "not reproduced")],
)
def test_16_holds_the_best_split_against_the_papers(best_kb, word):
    points = {
        (split, load, seed): point(*[1.0 if split == best else 1.5] * 3)
        for load, best in zip((0.1, 0.8), best_kb, strict=True)
        for split in pfabric_16.SPLITS_KB
        for seed in (1, 2, 3)
    }
    story = pfabric_16.tell(scale(0.1, 0.8), points)
    assert story.verdict.startswith(f"{word}: ")
    assert [row["best split, KB"] for row in story.rows] == [str(best) for best in best_kb]


@pytest.mark.parametrize(("mp", "word"), [((1.069, 1.84, 4.68), "reproduced"), ((1.4, 1.0, 5.7), "not reproduced")])
def test_5c_asks_which_class_gains_least(mp, word):
    values = bigspine_5c.AUTHORS | {"MP-MLFQ N=2 K=4": mp}
    points = {(name, 0.8, seed): point(*values[name]) for name in bigspine_5a.SCHEMES for seed in (1, 2, 3)}
    assert bigspine_5c.tell(scale(0.8), points).verdict.startswith(f"{word}: ")


@pytest.mark.parametrize("page", [*BIGSPINE, *PFABRIC], ids=lambda page: page.name)
def test_every_page_runs_and_tells(page, tmp_path):
    small = Scale("quick", 40, (1, 2), (0.5, 0.8))
    story = page.tell(small, run_all(page.runs(small), tmp_path))
    assert story.rows and story.panels and story.verdicts
    assert story.verdict and "\n" not in story.verdict
    assert any("oad" in line for line in page.settings), "a page says what load is"
    assert len({tuple(row) for row in story.rows}) == 1
