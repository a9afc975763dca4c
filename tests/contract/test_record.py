"""Flow records as values and as JSON, and the features in them."""

import contextlib
import json
import zlib
from ipaddress import IPv6Address
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.errors import RecordError
from qclimb.features import DEFAULT_FEATURE_IDS, FEATURES
from qclimb.record import FlowRecord

from tests.contract.strategies import records

GOOD: dict[str, Any] = {"start_ns": 5, "last_write_ns": 6, "size_bytes": 7}


@given(records())
def test_a_record_comes_back_from_its_json(record: FlowRecord) -> None:
    assert FlowRecord.from_json(json.loads(json.dumps(record.to_json()))) == record


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": 7}, "record has the unknown key 'size', did you mean"),
        ({"size_bytes": 0}, "size_bytes is 0, expected at least 1: a flow starts with a byte"),
        ({"size_bytes": "7"}, "size_bytes is '7', expected an integer in 0..2^64-1"),
        ({"last_write_ns": 4}, "last_write_ns is 4, expected start_ns = 5 or later"),
        ({"drained_ns": 5}, "drained_ns is 5, expected 0 or >= last_write_ns = 6"),
        ({"lower_bytes": 9, "upper_bytes": 8}, "lower_bytes is 9, expected at most upper_bytes = 8"),
        ({"last_size_bytes": [1, 2, 3, 4]}, "last_size_bytes is (1, 2, 3, 4), expected a tuple of 5 sizes"),
        ({"last_size_bytes": [1, 2, 3, 4, -5]}, "last_size_bytes[4] is -5, expected an integer in 0..2^64-1"),
        ({"peer_addr": "h2"}, "peer_addr is 'h2', expected an IPv4 or IPv6 address"),
        ({"peer_addr": ["10.0.0.1"]}, "peer_addr is ['10.0.0.1'], expected an IPv4 or IPv6 address"),
        ({"peer_addr": 1}, "peer_addr is 1, expected an IPv4 or IPv6 address"),
        ({"peer_port": 65536}, "peer_port is 65536, expected an integer in 0..65535"),
        ({"role": 2}, "role is 2, expected an integer in 0..1"),
        ({"mode": 2}, "mode is 2, expected one of off, observe, pias, qclimb"),
        ({"last_priority": 64}, "last_priority is 64, expected an integer in 0..63"),
        ({"comm": "sixteen letters!"}, "comm is 'sixteen letters!', expected a name of at most 15 bytes"),
    ],
)
def test_an_impossible_record_is_refused_in_one_sentence(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError) as refusal:
        FlowRecord.from_json(GOOD | change)
    assert str(refusal.value).startswith(said)


def test_features_stand_by_their_ids() -> None:
    record = FlowRecord(
        **GOOD,
        start_us=10,
        gap_us=11,
        last_size_bytes=(12, 13, 14, 15, 16),
        local_port=17,
        peer_port=40000,
        role=1,
        peer_addr="10.0.0.1",
        local_addr="fe80::1",
        first_write_bytes=18,
    )
    ipv6 = zlib.crc32(IPv6Address("fe80::1").packed) & 0xFFFFFF
    assert dict(zip(FEATURES, record.features(), strict=True)) == {
        "start_us": 10,
        "gap_us": 11,
        **{f"last_size_bytes_{back}": 11 + back for back in range(1, 6)},
        "service_port": 17,
        "role": 1,
        "peer_addr": 0x000001,
        "local_addr": ipv6,
        "first_write_bytes": 18,
    }
    assert tuple(range(11)) == DEFAULT_FEATURE_IDS, "all but our own first_write_bytes"


def test_the_service_port_is_the_listening_sides() -> None:
    assert FlowRecord(**GOOD, local_port=80, peer_port=40000, role=1).service_port == 80
    assert FlowRecord(**GOOD, local_port=40000, peer_port=80, role=0).service_port == 80


def test_a_v4_mapped_address_is_the_ipv4_address() -> None:
    mapped = FlowRecord(**GOOD, peer_addr="::ffff:10.0.0.1")
    assert mapped.peer_addr == "10.0.0.1"
    assert mapped.features()[FEATURES.index("peer_addr")] == 0x000001


def test_neighbours_stay_apart_as_float32() -> None:
    hosts = [FlowRecord(**GOOD, peer_addr=f"198.19.1.{n}").features()[FEATURES.index("peer_addr")] for n in range(256)]
    assert len({float(np.float32(value)) for value in hosts}) == 256


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)


@given(st.sampled_from(list(FlowRecord(**GOOD).to_json())), PLAIN | st.lists(PLAIN) | st.dictionaries(st.text(), PLAIN))
def test_no_json_makes_a_record_fail_otherwise(name: str, value: Any) -> None:
    with contextlib.suppress(RecordError):
        FlowRecord.from_json({**GOOD, name: value})
