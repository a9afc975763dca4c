"""Python's host files against the C headers: the same bytes mean the same, and both refuse the same."""

import ctypes
import errno
import ipaddress
import json
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb import forest, policy, record
from qclimb.errors import ModelError, PolicyError
from qclimb.features import FEATURES
from qclimb.forest import feature_rows, float_key, key_bytes
from qclimb.hostfile import (
    MODEL_HEADER,
    POLICY,
    RECORD,
    RECORD_HEADER,
    decode_forest,
    decode_policy,
    encode_forest,
    encode_policy,
    encode_records,
)
from qclimb.policy import Mode, Policy, default_dscp
from qclimb.record import FlowRecord, RecordBatch

from tests.contract.strategies import U64, policies, records, u
from tests.contract.test_hostfile import MODEL_FILE, POLICY_FILE, with_bytes
from tests.contract.trees import Tree, forest_of, leaf, split

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "hostlib" / "core" / "include"
COMPILER = shutil.which("cc")

if not COMPILER:
    pytest.skip("no C compiler (cc) on this machine", allow_module_level=True)


@pytest.fixture(scope="module")
def c(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The headers, compiled."""
    library = tmp_path_factory.mktemp("layout") / "layout.so"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    subprocess.run([str(COMPILER), *flags, f"-I{INCLUDE}", HERE / "layout.c", "-o", library], check=True)
    loaded = ctypes.CDLL(str(library))
    for name in ("policy_fields", "header_fields", "record_fields", "constants"):
        getattr(loaded, name).restype = ctypes.c_char_p
    loaded.policy_verify.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    array = np.ctypeslib.ndpointer(np.uint64, flags="C_CONTIGUOUS")
    loaded.model_bounds.argtypes = [ctypes.c_char_p, ctypes.c_size_t, array, ctypes.c_size_t, array]
    loaded.key_of_u64.argtypes, loaded.key_of_u64.restype = [ctypes.c_uint64], ctypes.c_int32
    loaded.bytes_of_key.argtypes, loaded.bytes_of_key.restype = [ctypes.c_int32, ctypes.c_int], ctypes.c_uint64
    return loaded


def told(text: bytes) -> Any:
    return json.loads(text)


@given(value=policies())
def test_c_reads_each_field_of_a_policy_where_python_wrote_it(c: ctypes.CDLL, value: Policy) -> None:
    data = encode_policy(value)
    assert c.policy_verify(data, len(data)) == 0
    found = told(c.policy_fields(data))
    unused = 64 - value.priorities
    assert found["sizeof"] == POLICY.size == found["struct_bytes"]
    assert found["threshold_bytes"] == [0, *value.threshold_bytes, *[U64] * unused]
    assert bytes.fromhex(found["dscp"]) == bytes(value.dscp) + bytes(unused)
    assert (found["mode"], found["priorities"]) == (value.mode.number, value.priorities)
    assert found["flags"] == value.use_forest + 2 * value.use_footprint + 4 * value.quickack + 8 * value.optax
    same = ("generation", "slack_bytes", "small_coflow_bytes", "flow_gap_us", "promote_wait_us", "model_generation")
    same += ("deadline_step_us",)
    assert {name: found[name] for name in same} == {name: getattr(value, name) for name in same}


def test_python_reads_the_policy_that_is_built_into_c(c: ctypes.CDLL) -> None:
    data = ctypes.create_string_buffer(POLICY.size)
    c.policy_default(data)
    built_in = decode_policy(data.raw)
    assert (built_in.mode, built_in.dscp) == (Mode.PIAS, default_dscp(8))
    assert encode_policy(built_in) == data.raw


@given(offset=st.integers(0, POLICY.size - 5), new=st.binary(min_size=1, max_size=8))
def test_c_and_python_refuse_the_same_policies(c: ctypes.CDLL, offset: int, new: bytes) -> None:
    data = with_bytes(POLICY_FILE, offset, new)[: POLICY.size]
    try:
        decode_policy(data)
        good = True
    except PolicyError:
        good = False
    assert (c.policy_verify(data, len(data)) == 0) == good


@given(value=records(), dropped=u(2**32 - 1), generation=u(U64))
def test_c_reads_each_field_of_a_record_where_python_wrote_it(
    c: ctypes.CDLL, value: FlowRecord, dropped: int, generation: int
) -> None:
    data = encode_records(RecordBatch((value,), dropped, generation))
    header, found = told(c.header_fields(data)), told(c.record_fields(data[RECORD_HEADER.size :]))
    assert header.pop("sizeof") == RECORD_HEADER.size
    assert found.pop("sizeof") == header["record_bytes"] == RECORD.size
    assert (header["count"], header["dropped"], header["hostlib_generation"]) == (1, dropped, generation)
    expected = {field.name: getattr(value, field.name) for field in fields(value)}
    for name in ("local_addr", "peer_addr"):
        address = ipaddress.ip_address(expected[name])
        expected[name] = (b"" if address.version == 6 else bytes(10) + b"\xff\xff").hex() + address.packed.hex()
    expected |= {
        "mode": value.mode.number,
        "comm": value.comm.encode().ljust(16, b"\0").hex(),
        "last_size_bytes": list(value.last_size_bytes),
    }
    assert found == expected


FEATURE_IDS = st.permutations(range(len(FEATURES))).map(lambda order: tuple(order[:4]))
SPLITS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 80.0, 65535.0, 16777217.0, 1e9, 1.8e19, 3e38]) | st.integers(0, U64).map(
    float
)
LEAVES = st.tuples(u(U64), u(1 << 24)).map(lambda two: leaf(*sorted(two)))
TREES = st.recursive(LEAVES, lambda inner: st.builds(split, st.integers(0, 3), SPLITS, inner, inner), max_leaves=12)
VALUES = u(U64) | st.sampled_from([0, 1, 3, 4, 80, 65535, 16777216, 16777217, 16777219, 10**9])
ROWS = st.lists(st.tuples(*[VALUES] * len(FEATURES)), min_size=1, max_size=8)


@settings(max_examples=200)
@given(trees=st.lists(TREES, min_size=1, max_size=24), ids=FEATURE_IDS, rows=ROWS)
def test_c_and_numpy_forecast_the_same_bytes(
    c: ctypes.CDLL, trees: list[Tree], ids: tuple[int, ...], rows: list[tuple[int, ...]]
) -> None:
    made = forest_of(*trees, depth=12, feature_ids=ids)
    data, values = encode_forest(made), np.array(rows, np.uint64)
    bounds = np.zeros((len(rows), 2), np.uint64)
    assert c.model_bounds(data, len(data), values, len(rows), bounds) == 0
    lower, upper = made.predict_bytes(feature_rows(rows, ids))
    assert bounds.tolist() == np.stack([lower, upper], axis=1).tolist()


@given(place=st.integers(0, (len(MODEL_FILE) - MODEL_HEADER.size) // 4 - 2), value=st.integers(-2, 5))
def test_what_python_takes_for_a_forest_c_does_too(c: ctypes.CDLL, place: int, value: int) -> None:
    """Python also looks at nodes that no tree leads to, so it may refuse more."""
    data = with_bytes(MODEL_FILE, MODEL_HEADER.size + 4 * place, value.to_bytes(4, "little", signed=True))
    verdict = c.model_bounds(data, len(data), np.zeros(0, np.uint64), 0, np.zeros(0, np.uint64))
    try:
        decode_forest(data)
    except ModelError:
        assert verdict in (0, -errno.EINVAL)
    else:
        assert verdict == 0


@given(value=VALUES, key=st.integers(-(2**31), 2**31 - 1))
def test_c_and_numpy_turn_numbers_into_keys_and_back_alike(c: ctypes.CDLL, value: int, key: int) -> None:
    assert c.key_of_u64(value) == float_key(np.uint64(value).astype(np.float32))
    for up in (False, True):
        assert c.bytes_of_key(key, up) == key_bytes(key, up=up)


def test_both_sides_spell_out_the_same_numbers(c: ctypes.CDLL) -> None:
    assert told(c.constants()) == {
        "max_priorities": policy.MAX_PRIORITIES,
        "max_promote_wait_us": policy.MAX_PROMOTE_WAIT_US,
        "max_trees": forest.MAX_TREES,
        "max_depth": forest.MAX_DEPTH,
        "max_nodes": forest.MAX_NODES,
        "features": len(FEATURES),
        "service_port": FEATURES.index("service_port"),
        "modes": [mode.number for mode in Mode],
        "record_flags": [
            record.ENDED_BY_CLOSE,
            record.WAIT_RAN_OUT,
            record.HAD_FOREST_BOUNDS,
            record.HAD_SIZE_HINT,
            record.PARTLY_UNOBSERVED,
            record.HAD_DEADLINE,
        ],
        "sizeof": MODEL_HEADER.size,
    }
