"""A claim of a paper is reproduced by its sign, beyond doubt, near its numbers and at its loads: by nothing less."""

from dataclasses import replace

import pytest

from lab.experiment.claims import (
    AsPaper,
    AtLeast,
    AtMost,
    Below,
    Claim,
    NotWorse,
    Outcome,
    judge,
    said,
    span,
    tally,
)
from lab.experiment.intervals import NOTHING, Interval

SEVEN = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def sharp(*values):
    return [Interval(value, value / 1.01, value * 1.01) for value in values]


def vague(*values):
    return [Interval(value, value / 1.5, value * 1.5) for value in values]


def outcome(needs, seen, loads=SEVEN):
    return judge(needs, seen, loads).outcome


def test_more_where_the_paper_has_less_is_not_reproduced():
    """Once `1.02 against 0.57 to 0.98, reproduced within 4 %`."""
    needs = AsPaper(0.575, 0.98, SEVEN)
    assert outcome(needs, sharp(1.02), (0.7,)) is Outcome.NOT_REPRODUCED
    assert outcome(needs, sharp(*[1.02] * 7)) is Outcome.NOT_REPRODUCED
    assert outcome(needs, vague(1.02), (0.7,)) is Outcome.NOT_REPRODUCED, "a wide interval makes it no better"


@pytest.mark.parametrize("needs", [AsPaper(0.62, 0.91), AsPaper(0.65, 0.99), AsPaper(0.837, 0.837), AsPaper(0.8, 0.97)])
@pytest.mark.parametrize("value", [0.985, 1.0, 1.02])
def test_no_difference_reproduces_nothing_where_the_paper_has_one(needs, value):
    for seen in (sharp(value), vague(value), [Interval(value, value, value)]):
        assert outcome(needs, seen, ()) is Outcome.NOT_REPRODUCED


def test_inside_the_papers_range_at_its_loads_is_reproduced():
    needs = AsPaper(0.6, 0.8, (0.5, 0.7))
    assert str(judge(needs, sharp(0.6, 0.8), (0.5, 0.7))) == "reproduced"
    assert str(judge(needs, sharp(0.62, 0.84), (0.5, 0.7))) == "reproduced, within 5 %"
    assert outcome(needs, sharp(0.5, 0.75), (0.5, 0.7)) is Outcome.DIRECTION
    assert outcome(needs, sharp(0.7, 0.75), (0.5, 0.7)) is Outcome.DIRECTION, "where the paper has 0.6 ours is not"
    assert outcome(needs, sharp(0.6, 0.65), (0.5, 0.7)) is Outcome.DIRECTION, "nor where it has 0.8"
    assert outcome(needs, sharp(0.7), (0.5,)) is Outcome.AT_SOME_LOADS, "which of them is not known of one load"
    assert outcome(needs, sharp(0.65, 0.95), (0.5, 0.7)) is Outcome.DIRECTION
    assert outcome(needs, sharp(0.65, 0.99), (0.5, 0.7)) is Outcome.NOT_REPRODUCED, "each load has to show it"


def test_one_load_is_not_held_to_be_seven():
    verdict = judge(AsPaper(0.62, 0.91, SEVEN), sharp(0.8), (0.7,))
    assert str(verdict).endswith("1 of 7")
    claim = Claim("QCLIMB", "PIAS", "all", "mean", AsPaper(0.62, 0.91, SEVEN), "Fig. 23, PageRank")
    assert said(claim, sharp(0.8), (0.7,)) == (
        "Fig. 23, PageRank, QCLIMB / PIAS, overall mean: here 0.80 [0.79, 0.81] at 0.7, the paper 0.62 to 0.91 over 7 "
        "loads, 0.3 to 0.9: as in the paper, at some of its loads, 1 of 7."
    )


def test_a_claim_of_other_loads_is_not_measured():
    assert str(judge(AsPaper(0.6, 0.8, (0.5,)), [])).startswith("not measured")
    assert outcome(AsPaper(0.6, 0.8), [NOTHING]) is Outcome.NOT_MEASURED


def test_a_sign_that_the_interval_does_not_show_is_not_resolved():
    assert str(judge(AsPaper(0.6, 0.8), vague(0.7))) == "not resolved, the interval reaches 1"
    one_run = [Interval(0.7, float("nan"), float("nan"))]
    assert str(judge(AsPaper(0.6, 0.8), one_run)) == "not resolved, one run has no interval"


def test_up_to_has_to_come_near_the_papers_most():
    needs = AsPaper(0.6, 1.0, (0.5, 0.7))
    assert needs.is_up_to and AsPaper(0.575, 0.98).is_up_to and not AsPaper(0.535, 0.97).is_up_to
    assert outcome(needs, sharp(0.62, 1.0), (0.5, 0.7)) is Outcome.REPRODUCED
    assert outcome(needs, sharp(0.9, 1.0), (0.5, 0.7)) is Outcome.DIRECTION
    assert outcome(needs, sharp(0.62, 1.06), (0.5, 0.7)) is Outcome.NOT_REPRODUCED, "a loss where the paper has none"
    assert outcome(needs, [*sharp(0.62), *vague(1.06)], (0.5, 0.7)) is Outcome.UNRESOLVED, "perhaps a loss"
    assert outcome(needs, [*vague(0.62), *sharp(0.95)], (0.5, 0.7)) is Outcome.REPRODUCED
    assert outcome(needs, [Interval(0.62, 0.3, 1.2), *sharp(0.95)], (0.5, 0.7)) is Outcome.UNRESOLVED
    assert outcome(needs, sharp(0.9), (0.7,)) is Outcome.AT_SOME_LOADS, "which load the most is of is not known"


def test_near_1_is_a_bound_and_never_reproduced():
    needs = AsPaper(1.016, 1.059, SEVEN)
    assert needs.is_bound
    assert str(judge(needs, sharp(1.0, 1.05), SEVEN)) == "bound kept, 0.98 to 1.08"
    assert str(judge(needs, sharp(1.0, 1.05), (0.7,))) == "bound kept, 0.98 to 1.08, at 1 of its 7 loads"
    assert outcome(needs, sharp(1.2)) is Outcome.BROKEN and outcome(needs, sharp(0.8)) is Outcome.BROKEN
    assert str(judge(needs, vague(1.0))) == "not resolved, a bound of 0.98 to 1.08"
    assert AsPaper(1.0, 1.0).is_bound and AsPaper(0.926, 1.053).is_bound and not AsPaper(1.12, 1.17).is_bound


@pytest.mark.parametrize("low, high", [(0.6, 0.8), (0.6, 1.0), (0.95, 0.99), (0.5, 0.5)])
@pytest.mark.parametrize("value", [0.3, 0.5, 0.55, 0.62, 0.84, 0.9, 0.97, 1.0, 1.1])
def test_a_ratio_turned_over_is_judged_alike(low, high, value):
    turned = AsPaper(1 / high, 1 / low)
    if not turned.is_bound:
        for seen in (sharp(value), vague(value)):
            (one,) = seen
            back = Interval(1 / one.value, 1 / one.high, 1 / one.low)
            assert judge(turned, [back]) == judge(AsPaper(low, high), seen)


def test_our_own_needs_hold_or_not_beyond_doubt():
    assert outcome(Below(), sharp(0.9)) is Outcome.HOLDS and outcome(Below(), sharp(1.1)) is Outcome.FAILS
    assert outcome(Below(), vague(0.9)) is Outcome.UNRESOLVED
    assert outcome(AtMost(1.15), sharp(1.1)) is Outcome.HOLDS and outcome(AtMost(1.15), sharp(1.2)) is Outcome.FAILS
    assert outcome(AtMost(1.15), vague(1.1)) is Outcome.UNRESOLVED
    assert outcome(AtLeast(1.3), sharp(1.4)) is Outcome.HOLDS and outcome(AtLeast(1.3), sharp(1.2)) is Outcome.FAILS
    assert outcome(NotWorse(), sharp(1.0)) is Outcome.HOLDS and outcome(NotWorse(), vague(1.0)) is Outcome.UNRESOLVED
    assert outcome(NotWorse(), [Interval(1.1, 1.01, 1.3)]) is Outcome.FAILS
    assert outcome(NotWorse(), [Interval(1.02, 1.01, 1.03)]) is Outcome.HOLDS


@pytest.mark.parametrize(
    "needs", [Below(), AtMost(1.2), AtLeast(0.5), NotWorse(), AsPaper(0.5, 0.8), AsPaper(1.0, 1.0)]
)
def test_nothing_holds_without_an_interval(needs):
    found = outcome(needs, [Interval(0.7, float("nan"), float("nan"))])
    assert found is Outcome.UNRESOLVED


def test_of_several_the_worst_counts():
    assert outcome(Below(), sharp(0.9, 0.8)) is Outcome.HOLDS
    assert outcome(Below(), [*sharp(0.9), *vague(0.9)]) is Outcome.UNRESOLVED
    assert outcome(Below(), [*sharp(1.1), *vague(0.9)]) is Outcome.FAILS


def test_a_claim_of_our_own_names_no_paper():
    claim = Claim("qclimb", "tcp", "large", "mean", AtMost(1.15))
    assert said(claim, sharp(1.1), (0.7,)) == "qclimb / tcp, large mean: here 1.10 [1.09, 1.11] at 0.7: holds."
    assert said(replace(claim, needs=Below()), sharp(1.1, 0.9)).endswith("here 0.90 to 1.10: does not hold.")
    assert span([NOTHING]) == "nothing"


def test_a_paper_that_goes_down_or_below_0_is_refused():
    for low, high in ((0.8, 0.6), (0.0, 0.5), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match="must go up from above 0"):
            AsPaper(low, high)


def test_a_tally_counts_what_there_is():
    outcomes = [Outcome.REPRODUCED, Outcome.NOT_REPRODUCED, Outcome.KEPT, Outcome.NOT_REPRODUCED]
    assert tally(outcomes) == (
        "of 4 claims 1 reproduced (the sign, within 10%, at the same loads), 1 bounds kept, 2 not reproduced."
    )
    assert tally([Outcome.HOLDS]) == "of 1 claims 1 hold."
