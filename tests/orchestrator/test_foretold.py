"""What sizes and thresholds foretell of each priority's share of all bytes, and that an intent tells it."""

import pytest
from qclimb.histogram import SizeHistogram
from qclimb.policy import Mode

from orchestrator.plan.foretold import foretold_shares
from orchestrator.plan.revision import Revision, adapted, propose
from orchestrator.plan.thresholds import LAST_SHARE, LOAD, OBJECTIVE, SEGMENT_BYTES

SIZES = SizeHistogram.of([1_000] * 9 + [91_000])
WISH = {
    **{"mode": Mode.PIAS, "objective": OBJECTIVE, "load": LOAD, "last_share": LAST_SHARE, "label": None},
    **{"segment_bytes": SEGMENT_BYTES, "slack_bytes": None, "model": None, "queues": None, "ports": None},
}


def test_a_prioritys_share_is_that_of_the_bytes_between_its_thresholds() -> None:
    assert foretold_shares(SIZES, [1_500, 46_000], Mode.PIAS, 10**6) == pytest.approx([0.105, 0.445, 0.45], abs=0.01)
    first, second = foretold_shares(SIZES, [1_500], Mode.QCLIMB, 1_500) or ()
    assert (first, second) == pytest.approx((0.21, 0.895), abs=0.01), "the slack's bytes, too"
    assert foretold_shares(SIZES, [], Mode.QCLIMB, 10**6) == (1.0,)
    assert foretold_shares(SizeHistogram(), [1_500], Mode.PIAS, 0) is None


def test_the_intent_tells_what_is_foretold_and_the_limits_that_are_asked_for() -> None:
    document = propose(SIZES, {}, thresholds=[1_500], priorities=2, max_share=[0.5, None], **WISH)
    classes = Revision.from_json(document).intent.classes
    assert [one.max_share for one in classes] == [0.5, None]
    assert [one.foretold_share for one in classes] == pytest.approx([0.105, 0.895], abs=0.01)
    untold = propose(SizeHistogram(), {}, thresholds=[1_500], priorities=2, **WISH)
    assert [one.foretold_share for one in Revision.from_json(untold).intent.classes] == [None, None]


def test_on_fewer_spines_the_limits_stay_and_the_shares_are_foretold_anew() -> None:
    wish = {**WISH, "queues": [3, 2]}
    document = propose(SIZES, {}, thresholds=[1_000, 46_000], spines=["s1", "s2"], max_share=[0.4, None], **wish)
    left = Revision.from_json(adapted(document, ["s1"], SIZES, {})).intent.classes
    assert [one.max_share for one in left] == [0.4, None]
    assert sum(one.foretold_share or 0 for one in left) == pytest.approx(1)
