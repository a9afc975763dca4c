"""Revisions with several spines: what each switch and each host gets, and what is left of it when a spine is down."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from qclimb.errors import QclimbError
from qclimb.histogram import SizeHistogram
from qclimb.intent import BALANCED
from qclimb.policy import Mode
from qclimb.schema import validate_config_db, validate_gnmi

from orchestrator.plan.revision import Revision, adapted, propose
from orchestrator.plan.thresholds import LAST_SHARE, LOAD, OBJECTIVE, SEGMENT_BYTES

HEAVY = [int(3000 * (1 - u) ** -0.9) for u in np.linspace(0, 0.9999, 400)]
SIZES = SizeHistogram.of(HEAVY)
ASKED: dict[str, Any] = {
    **{"thresholds": "optimise", "objective": OBJECTIVE, "load": LOAD, "last_share": LAST_SHARE},
    **{"segment_bytes": SEGMENT_BYTES, "label": None, "slack_bytes": None, "model": None, "queues": None},
    **{"ports": None, "mode": Mode.PIAS},
}
FOUR = ["s1", "s2", "s3", "s4"]


def revision(**asked: Any) -> tuple[Revision, dict[str, Any]]:
    document = propose(SIZES, {}, **{**ASKED, **asked})
    return Revision.from_json(document), document


def test_four_spines_with_two_queues_are_five_priorities_for_hosts_and_switches() -> None:
    made, document = revision(spines=FOUR, ports=["Ethernet0"])
    assert [(one.queue, one.path) for one in made.intent.classes] == [(1, name) for name in FOUR] + [(0, BALANCED)]
    assert (made.policy.dscp, made.policy.spines, made.policy.unpinned_dscp) == ((47, 43, 39, 35, 31), 4, 51)
    assert [one.threshold_bytes for one in made.intent.classes[1:]] == list(made.policy.threshold_bytes)
    assert made.intent.path_weights is not None
    assert sum(made.intent.path_weights.share.values()) == pytest.approx(1)
    assert made.intent.unpinned_dscp == 51
    carried, share = document["spines"]["carried"], document["spines"]["share"]
    assert [own + share[name] * carried[4] for own, name in zip(carried, FOUR, strict=False)] == pytest.approx(
        [0.25] * 4
    )


def test_a_spine_gets_the_queues_and_steers_nothing() -> None:
    made, _ = revision(spines=FOUR)
    spine = made.intent_of("spine")
    assert (spine.tier, spine.path_weights, spine.classes) == ("spine", None, made.intent.classes)
    for each in (spine, made.intent_of("leaf")):
        validate_gnmi(each.to_gnmi())
        validate_config_db(each.to_config_db())
    one_path, _ = revision(priorities=3)
    assert one_path.intent_of("spine") == one_path.intent_of("leaf") == one_path.intent


def test_more_than_eight_priorities_take_a_list_of_dscps() -> None:
    with pytest.raises(QclimbError, match="dscp is missing, expected a list of 9: the default list has 8"):
        revision(spines=FOUR, queues=[5, 4, 3])
    made, _ = revision(spines=FOUR, queues=[5, 4, 3], dscp=[47, 45, 43, 41, 39, 37, 35, 33, 31])
    assert made.policy.priorities == 9
    assert made.intent.queues == (5, 4, 3)


def test_one_spine_is_one_path() -> None:
    made, document = revision(spines=["s1"], priorities=3)
    assert made.intent.spines == () and made.policy.spines == 0 and "spines" not in document


def test_without_a_spine_the_others_get_its_priorities() -> None:
    whole, document = revision(
        spines=FOUR, ports=["Ethernet0"], ecn_bytes=(30_000, 90_000), dynamic_th=[0, None], optax=True
    )
    left = adapted(document, ["s1", "s2", "s4"], SIZES, {})
    made = Revision.from_json(left)
    assert [(one.queue, one.path) for one in made.intent.classes] == [(1, "s1"), (1, "s2"), (1, "s4"), (0, BALANCED)]
    assert made.policy.spines == 3 and made.policy.optax and made.policy.slack_bytes == whole.policy.slack_bytes
    assert made.policy.dscp == (47, 43, 39, 31), "the last priority keeps its DSCP"
    assert (made.intent.ports, made.intent.ecn_min_bytes) == (("Ethernet0",), 30_000)
    assert made.intent.path_weights is not None and set(made.intent.path_weights.share) == {"s1", "s2", "s4"}
    again = adapted(left, FOUR, SIZES, {})
    assert Revision.from_json(again) == whole, "and back"


def test_a_revision_that_holds_a_number_which_switches_take_no_more_is_read_as_the_nearest() -> None:
    made, document = revision(priorities=2, dynamic_th=[7, None], thresholds=[6000])
    for each in document["intent"]["qclimb:qclimb"]["classes"]["class"][:1]:
        each["config"]["dynamic-th"] = 8
    assert Revision.from_json(document) == made


def test_what_is_left_of_one_spine_is_one_path() -> None:
    _, document = revision(spines=["s1", "s2"], queues=[3, 2])
    made = Revision.from_json(adapted(document, ["s2"], SIZES, {}))
    assert [(one.queue, one.path) for one in made.intent.classes] == [(3, BALANCED), (2, BALANCED)]
    assert (made.policy.spines, made.policy.unpinned_dscp, made.intent.unpinned_dscp) == (0, 0, None)
    assert made.intent.path_weights is None
    again = Revision.from_json(adapted({**document, **made.to_json()}, ["s1", "s2"], SIZES, {}))
    assert again == Revision.from_json(document)


TOLD = [6000, 12_000, 30_000, 60_000]


def test_told_thresholds_lose_those_of_a_spine_that_is_down() -> None:
    _, document = revision(spines=FOUR, thresholds=TOLD)
    for gone, left in {"s1": [12_000, 30_000, 60_000], "s3": [6000, 30_000, 60_000]}.items():
        found = adapted(document, [name for name in FOUR if name != gone], SIZES, {})["threshold_bytes"]
        assert all(new <= old for new, old in zip(found, left, strict=True)), "a threshold at fault is moved down"
        assert all(a < b for a, b in pairwise(found))
    assert adapted(document, FOUR, SIZES, {})["threshold_bytes"] == TOLD


def test_told_weights_are_told_and_equal_ones_are_not() -> None:
    told, document = revision(spines=["s1", "s2"], thresholds=[6000, 60_000], weights={"s1": 0.75, "s2": 0.25})
    assert told.intent.path_weights is not None and dict(told.intent.path_weights.share) == {"s1": 0.75, "s2": 0.25}
    equal, _ = revision(spines=["s1", "s2"], thresholds=[6000, 60_000], weights="equal")
    assert equal.intent.path_weights is None
    assert document["spines"]["carried"] is None


def test_links_of_other_rates_have_other_shares() -> None:
    made, document = revision(spines=["s1", "s2", "s3"], spine_gbps=[100, 100, 40])
    carried, share = document["spines"]["carried"], document["spines"]["share"]
    loads = [carried[at] + share[f"s{at + 1}"] * carried[3] for at in range(3)]
    assert loads == pytest.approx([100 / 240, 100 / 240, 40 / 240], abs=1e-5)
    assert made.policy.spines == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"spines": ["s1", "s1"]}, "spines[1] is 's1', expected each spine once"),
        ({"spines": ["s1", "balanced"]}, "spines[1] is 'balanced'"),
        ({"spines": FOUR, "queues": [3]}, "queues has 1 entries, expected at least 2 on several spines"),
        ({"spines": FOUR, "queues": [3, 4]}, "class 4 queue is 4, expected less than class 3's 3"),
        ({"spines": FOUR, "priorities": 4}, "priorities is 4, expected 5 for 4 spines with 2 queues"),
        ({"spines": FOUR, "spine_gbps": [1]}, "spine_gbps has 1 values, expected 4, one a spine"),
        ({"spines": FOUR, "unpinned_dscp": 47}, "unpinned_dscp is 47, expected a DSCP that no priority"),
        (
            {"spines": FOUR, "unpinned_dscp": 46},
            "unpinned_dscp is 46, expected an integer in 0..2, 5..45, 47, 49..63: switches keep 46",
        ),
        ({"spines": FOUR, "weights": {"s1": 1.0}}, "weights lacks the spine 's2', expected a share for each"),
        ({"spines": FOUR, "weights": {"s9": 1.0}}, "weights has the spine 's9', expected one of s1, s2, s3, s4"),
        ({"spines": ["s1", "s2"], "weights": {"s1": 0.5, "s2": 0.4}}, "path shares sum to 0.9, expected 1"),
        ({"spines": FOUR, "thresholds": [5]}, "threshold_bytes has 1 values, expected 4 for 5 priorities"),
        (
            {"spines": ["s1", "s2"], "thresholds": [10**9, 10**10]},
            "threshold_bytes[0] is 1000000000: spine 's1' would carry 1.0000 of all bytes before the last priority",
        ),
        ({"dscp": [1, 2]}, "dscp has 2 values, expected 8, one a priority"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_in_one_sentence(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(QclimbError, match=re.escape(said)):
        revision(**asked)


def test_rest_makes_such_a_revision_and_refuses_others(admin: TestClient) -> None:
    delivered = admin.post("/v1/hosts/h1/records", json={"histogram": SIZES.to_json()})
    assert delivered.status_code < 300, delivered.text
    made = admin.post("/v1/revisions", json={"spines": ["s1", "s2"], "queues": [3, 2]})
    assert made.status_code == 201, made.text
    assert made.json()["spines"]["names"] == ["s1", "s2"]
    assert made.json()["policy"]["spines"] == 2
    assert admin.get(f"/v1/revisions/{made.json()['id']}").json()["spines"] == made.json()["spines"]
    assert "spines" not in admin.post("/v1/revisions", json={"priorities": 3}).json()
    for body, said in (
        ({"spines": ["s1", "s2"], "weights": {"s1": 2, "s2": 0}}, "body.weights"),
        ({"spines": ["s1", "a b"]}, "body.spines"),
        ({"spines": ["s1", "s2"], "unpinned_dscp": 0}, "body.unpinned_dscp is 0"),
        ({"spines": ["s1", "s2"], "spine_gbps": [1, 0]}, "body.spine_gbps"),
    ):
        refused = admin.post("/v1/revisions", json=body)
        assert refused.status_code == 422 and said in refused.json()["detail"], refused.text
