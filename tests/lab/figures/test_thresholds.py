"""The thresholds that the page tries are the orchestrator's, and its verdicts say what its points say."""

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pytest

from lab.figures.page import Scale
from lab.figures.pages.product.threshold_cases import CASES, sizes_of
from lab.figures.pages.product.thresholds import CHOSEN, DEFAULT, PAGE, statistic
from lab.figures.points import Point
from orchestrator.plan import thresholds
from orchestrator.plan.sizes import SizeDistribution
from orchestrator.plan.thresholds import Objective

OBJECTIVES = {"slowdown": Objective.SLOWDOWN, "PIAS's cost": Objective.PIAS}


def distribution(name: str) -> SizeDistribution:
    kind, sizes = sizes_of(CASES[name])
    made: Any = SizeDistribution.from_cdf if kind == "cdf" else SizeDistribution.from_sizes
    return cast(SizeDistribution, made(cast(Iterable[Any], sizes)))


@pytest.mark.parametrize("name", ["web", "Spark", "web search", "Hadoop"])
def test_the_thresholds_that_are_tried_are_the_orchestrators(name: str) -> None:
    sizes = distribution(name)
    for rule, values in CHOSEN[name].items():
        words, _, share = rule.rpartition(", ")
        found = thresholds.optimise(sizes, 8, thresholds.LOAD, OBJECTIVES[words], float(share), 1448)
        assert list(found.threshold_bytes) == values, rule
    assert list(thresholds.choose(sizes).threshold_bytes) == CHOSEN[name][DEFAULT]


def test_every_case_is_tried_with_the_same_rules() -> None:
    assert set(CHOSEN) == set(CASES)
    assert len({tuple(rules) for rules in CHOSEN.values()}) == 1 and DEFAULT in CHOSEN["web"]


def test_heavy_flows_are_the_largest_that_carry_half_of_the_bytes() -> None:
    size = np.array([10, 10, 20, 1_000, 1_040])
    point = Point(size, size * 1.0, np.ones(5), {})
    assert statistic(point, CASES["web"], "heavy mean") == 1_040
    assert statistic(point, CASES["web"], "mean") == pytest.approx(416)
    assert np.isnan(statistic(point, CASES["web"], "large mean"))
    assert statistic(point, CASES["web"], "mean slowdown") == 1


def test_what_is_worse_than_the_published_thresholds_is_named() -> None:
    scale = Scale("quick", 20, (1,), (0.6,))
    size = np.array([100, 1_000, 200_000, 20_000_000])

    def point(rule: str, name: str) -> Point:
        slow = 2.0 if (rule, name) == (DEFAULT, "bulk") else 1.0
        return Point(size, size * slow, np.full(4, slow), {})

    points = {key: point(str(key[1]), str(key[0])) for key in PAGE.runs(scale)}
    story = PAGE.tell(scale, points)
    assert "0 better by 5 % or more, 6 worse by 5 % or more (bulk at 0.6, small mean: 2.00" in story.verdicts[0]
    assert "in 1 of 9 cells (bulk at 0.6: 2.00)" in story.verdicts[1]
    assert len(story.rows) == sum(key[1] != "PIAS 2015" for key in points)
    assert PAGE.name == "thresholds" and len(story.panels) == 4
