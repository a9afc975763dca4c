"""A page of a grid says what its points say: the table, the plots, and each claim held against the paper."""

import numpy as np
import pytest

from lab.experiment.claims import AsPaper, Claim
from lab.figures.grid import Column, Grid, Note, Told, counted, fct
from lab.figures.page import Scale
from lab.figures.points import Point
from tests.lab.figures.made import made

SCALE = Scale("made", 3, (1, 2, 3), (0.5, 0.7))
CLAIM = Claim("A", "B", "all", "mean", AsPaper(0.7, 0.7, (0.5, 0.7)), "Fig. 0")


def grid(claims=(CLAIM,), **changes):
    plotted = (Column("overall mean / B", fct(), "B"),)
    settings = {"claims": claims, "cases": ("one",), "case": "trace", "plotted": plotted} | changes
    return Grid(("B", "A"), lambda *words: None, "B", **settings)


def points(ours=0.7, loads=(0.5, 0.7), cases=("one",), noise=0.0):
    found = {}
    for case in cases:
        for load in loads:
            for seed in (1, 2, 3):
                found[case, "B", load, seed] = made()
                found[case, "A", load, seed] = made(*[ours * (1 + noise * (seed - 2))] * 3)
    return found


def test_the_table_has_a_row_a_case_load_and_scheme_with_ratios_to_the_base():
    story = grid().tell(SCALE, points())
    assert [(row["trace"], row["load"], row["scheme"]) for row in story.rows] == [
        ("one", "0.5", "A"),
        ("one", "0.7", "A"),
    ]
    assert story.rows[0]["overall mean / B"] == story.rows[0]["large mean / B"] == "0.70 [0.70, 0.70]"


def test_verdicts_follow_the_points():
    for ours, word in (
        (0.7, "reproduced"),
        (0.5, "the direction only"),
        (1.0, "not reproduced"),
        (1.3, "not reproduced"),
    ):
        story = grid().tell(SCALE, points(ours))
        assert story.verdicts == [
            f"Fig. 0, A / B, overall mean: here {ours:.2f} to {ours:.2f} at 0.5 and 0.7, the paper 0.70 at 0.5 "
            f"and 0.7: {word}."
        ]
    assert "not resolved" in grid().tell(SCALE, points(0.75, noise=0.3)).verdict


def test_one_seed_shows_a_value_and_resolves_nothing():
    scale = Scale("quick", 3, (1,), (0.5, 0.7))
    story = grid().tell(scale, points())
    assert story.rows[0]["overall mean / B"] == "0.70"
    assert story.verdicts[0].endswith("not resolved, one run has no interval.")


def test_loads_that_the_paper_does_not_have_are_not_held_against_it():
    claim = Claim("A", "B", "all", "mean", AsPaper(0.7, 0.7, (0.5,)), "Fig. 0")
    mixed = points() | {key: made(2, 2, 2) for key in points() if key[1] == "A" and key[2] == 0.7}
    assert (
        "here 0.70 [0.70, 0.70] at 0.5, the paper 0.70 at 0.5: reproduced."
        in (grid([claim]).tell(SCALE, mixed).verdicts[0])
    )


def test_a_claim_of_loads_that_were_not_run_is_counted_and_not_judged():
    other = Claim("A", "B", "all", "mean", AsPaper(0.7, 0.7, (0.9,)), "Fig. 1")
    story = grid([CLAIM, other]).tell(SCALE, points())
    assert len(story.verdicts) == 1
    assert "1 more are of loads" in story.verdict


def test_a_claim_of_one_case_looks_at_no_other():
    claim = Claim("A", "B", "all", "mean", AsPaper(0.7, 0.7), "Fig. 0", ("one",))
    mixed = points() | {("two", *key[1:]): made(*[5 if key[1] == "A" else 1] * 3) for key in points()}
    two = grid([claim], cases=("one", "two"))
    assert two.tell(SCALE, mixed).verdicts[0].endswith(": reproduced.")
    assert grid(cases=("one", "two")).tell(SCALE, mixed).verdicts[0].endswith(": not reproduced.")


def test_no_interval_of_a_ratio_reaches_0():
    """Three seeds as far apart as 0.05, 0.6 and 3: Student's t on the values themselves goes down to -3."""
    found = points()
    for seed, ours in ((1, 0.05), (2, 0.6), (3, 3.0)):
        found["one", "A", 0.5, seed] = made(ours, ours, ours)
    seen = Told(SCALE, found).ratio("one", "A", "B", 0.5, fct())
    assert 0 < seen.low < seen.value < seen.high
    (panel,) = grid().tell(SCALE, found).panels
    assert panel.series[0].y[0] == seen and panel.series[0].has_intervals


def test_no_interval_of_a_count_reaches_below_0():
    found = {("one", "A", 0.5, seed): made(drops=drops) for seed, drops in ((1, 0), (2, 0), (3, 90))}
    seen = Told(SCALE, found).value("one", "A", 0.5, counted("drops"))
    assert (seen.value, seen.low) == (30, 0) and seen.high > 90
    assert not Told(Scale("quick", 3, (1,), (0.5,)), found).value("one", "A", 0.5, counted("drops")).is_bounded


def test_seeds_without_such_flows_are_left_out():
    found = points()
    found["one", "A", 0.5, 2] = Point(np.array([5]), np.array([1.0]), np.array([1.0]), {})
    told = Told(SCALE, found)
    assert told.ratio("one", "A", "B", 0.5, fct("mean", "large")).value == pytest.approx(0.7)
    assert not told.ratio("one", "A", "B", 0.5, lambda point: float("nan")).is_measured


def test_columns_may_be_of_another_scheme_or_case_turned_over_or_in_some_rows_only():
    columns = (
        Column("theirs", fct(), scheme="B", digits=0),
        Column("over", fct(), "B", turned=True),
        Column("two's", fct(), "B", case="two", cases=("one",)),
        Column("dropped, %", counted("drops", "data_packets", 100)),
        Note("note", lambda case, scheme, load: f"{case} {scheme} {load}"),
    )
    found = points() | {("two", *key[1:]): made(*[0.5 if key[1] == "A" else 1] * 3, drops=20) for key in points()}
    made_of = Grid(("B", "A"), lambda *words: None, "B", columns, cases=("one", "two"), case="case")
    first, *_, last = made_of.tell(Scale("made", 3, (1,), (0.5,)), found).rows
    assert first == {
        "case": "one", "load": "0.5", "scheme": "A", "theirs": "100", "over": "1.43", "two's": "0.50",
        "dropped, %": "0.00", "note": "one A 0.5",
    }  # fmt: skip
    assert (last["case"], last["two's"], last["dropped, %"]) == ("two", "", "2.00")


def test_hidden_cases_have_no_rows_and_no_claims():
    found = points() | {("two", *key[1:]): made(*[5 if key[1] == "A" else 1] * 3) for key in points()}
    story = grid(cases=("one", "two"), hidden=("two",)).tell(SCALE, found)
    assert {row["trace"] for row in story.rows} == {"one"} and story.verdicts[0].endswith(": reproduced.")
    assert len(story.panels) == 2, "they are drawn"


def test_plots_have_loads_numbers_or_cases_along_their_axis():
    one = grid().tell(SCALE, points()).panels
    assert [(panel.title, panel.x, list(panel.series[0].x)) for panel in one] == [
        ("one: overall mean / B", "load", [0.5, 0.7])
    ]
    found = points(cases=("1", "5"))
    (first, second) = grid(cases=("1", "5"), case="depth", x={"1": 1.0, "5": 5.0}).tell(SCALE, found).panels
    assert (first.title, first.x, list(first.series[0].x)) == ("load 0.5: overall mean / B", "depth", [1.0, 5.0])
    assert second.title.startswith("load 0.7")
    (dots,) = grid(cases=("1", "5"), dots=True).tell(SCALE, found).panels
    assert list(dots.names) == ["1", "5"] and dots.title.startswith("load 0.7")


def test_points_that_there_are_not_have_no_row_and_no_place():
    found = {key: point for key, point in points().items() if key[2] == 0.5}
    story = grid().tell(SCALE, found)
    assert [row["load"] for row in story.rows] == ["0.5"]


def test_the_paper_s_numbers_stand_behind_the_line_that_they_are_of():
    others = (
        Claim("A", "B", "small", "mean", AsPaper(0.1, 0.2)),  # of another plot
        Claim("B", "A", "all", "mean", AsPaper(1.25, 2.0, (0.7,))),  # the other way round
        Claim("A", "B", "all", "mean", AsPaper(0.3, 0.3), cases=("two",)),
    )
    (panel,) = grid((CLAIM, *others)).tell(SCALE, points()).panels
    assert [(paper.label, list(paper.x), paper.low, paper.high) for paper in panel.papers] == [
        ("A", [0.5, 0.7], 0.7, 0.7),
        ("A", [0.7], 0.5, 0.8),
    ]
    turned = (Column("B / overall mean", fct(), "B", turned=True),)
    (panel,) = grid(plotted=turned).tell(SCALE, points()).panels
    assert panel.papers[0].low == pytest.approx(1 / 0.7)
