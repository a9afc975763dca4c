"""The policy as a value and as JSON."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.errors import PolicyError
from qclimb.policy import Mode, Policy, default_dscp

from tests.contract.strategies import policies

GOOD: dict[str, Any] = {
    "generation": 7,
    "mode": "qclimb",
    "threshold_bytes": [3, 6],
    "dscp": [47, 43, 39],
    "slack_bytes": 5000,
}


@given(policies())
def test_a_policy_comes_back_from_its_json(policy: Policy) -> None:
    assert Policy.from_json(json.loads(json.dumps(policy.to_json()))) == policy


def test_what_json_leaves_out_has_the_documented_default() -> None:
    policy = Policy.from_json(GOOD)
    assert (policy.small_coflow_bytes, policy.flow_gap_us, policy.promote_wait_us) == (1 << 20, 5_000, 100_000)
    assert (policy.use_forest, policy.use_footprint, policy.quickack, policy.model_generation) == (True, True, True, 0)
    assert policy.priorities == 3


def test_words_that_an_older_hostd_does_not_know_are_left_out_where_they_say_nothing() -> None:
    assert not {"deadline_step_us", "optax"} & Policy.from_json(GOOD).to_json().keys()
    assert Policy.from_json(GOOD | {"optax": True}).to_json()["optax"] is True


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slack_byte": 1}, "policy has the unknown key 'slack_byte', did you mean 'slack_bytes'?"),
        ({"generation": -1}, "generation is -1, expected an integer in 0..2^64-1"),
        ({"generation": True}, "generation is true, expected an integer in 0..2^64-1"),
        ({"generation": 1.0}, "generation is 1.0, expected an integer in 0..2^64-1"),
        ({"mode": "fast"}, "mode is 'fast', expected one of off, observe, pias, qclimb"),
        ({"mode": {}}, "mode is {}, expected one of off, observe, pias, qclimb"),
        ({"threshold_bytes": [3]}, "threshold_bytes has 1 values, expected 2 for 3 priorities"),
        ({"threshold_bytes": 3}, "threshold_bytes is 3, expected a list"),
        ({"threshold_bytes": [6, 6]}, "threshold_bytes[1] is 6, expected more than the one before it, 6"),
        ({"threshold_bytes": [0, 6]}, "threshold_bytes[0] is 0, expected an integer in 1..2^64-2"),
        ({"threshold_bytes": [1, 2**64 - 1]}, f"threshold_bytes[1] is {2**64 - 1}, expected an integer in 1..2^64-2"),
        ({"dscp": []}, "dscp has 0 values, expected one a priority, 1..64"),
        ({"dscp": [47, 64, 39]}, "dscp[1] is 64, expected an integer in 0..63"),
        ({"dscp": [47, 43, 47]}, "dscp[2] is 47, expected a DSCP that no priority before it has"),
        ({"use_forest": 1}, "use_forest is 1, expected true or false"),
        ({"flow_gap_us": 2**32}, "flow_gap_us is 4294967296, expected an integer in 0..2^32-1"),
        ({"promote_wait_us": 10_000_001}, "promote_wait_us is 10000001, expected an integer in 0..10000000"),
    ],
)
def test_an_impossible_policy_is_refused_in_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as refusal:
        Policy.from_json(GOOD | change)
    assert str(refusal.value) == said


@pytest.mark.parametrize("missing", GOOD)
def test_a_key_without_a_default_is_asked_for(missing: str) -> None:
    with pytest.raises(PolicyError, match=f"policy lacks '{missing}'"):
        Policy.from_json({key: value for key, value in GOOD.items() if key != missing})


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).flatmap(
    lambda value: st.sampled_from([value, *({**GOOD, key: value} for key in GOOD)])
))  # fmt: skip
def test_no_json_makes_a_policy_fail_otherwise(obj: Any) -> None:
    with contextlib.suppress(PolicyError):
        assert isinstance(Policy.from_json(obj).mode, Mode)


def test_default_dscps_are_the_local_use_codepoints_in_served_first_order() -> None:
    assert default_dscp(8) == (47, 43, 39, 35, 31, 27, 23, 19)
    assert all(dscp % 4 == 3 for dscp in default_dscp(8)), "RFC 2474 pool 2 is xxxx11"
    with pytest.raises(PolicyError, match="priorities is 9, expected"):
        default_dscp(9)


def test_a_mode_is_its_number_in_the_c_headers() -> None:
    assert [mode.number for mode in (Mode.OFF, Mode.OBSERVE, Mode.PIAS, Mode.QCLIMB)] == [0, 1, 2, 3]
    assert [Mode.of_number(number) for number in range(4)] == list(Mode)
