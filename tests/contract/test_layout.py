"""Python's host files against the C headers: every field lies at the same bytes, and both refuse the same."""

import ctypes
import errno
import json
import shutil
import subprocess
from dataclasses import make_dataclass
from pathlib import Path
from runpy import run_path
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb import forest, policy
from qclimb.errors import ModelError, PolicyError
from qclimb.features import FEATURES
from qclimb.forest import feature_rows, float_key, key_bytes
from qclimb.hostfile import (
    MODEL_HEADER,
    NODE,
    POLICY,
    RECORD,
    RECORD_HEADER,
    decode_forest,
    decode_policy,
    encode_forest,
    encode_policy,
)
from qclimb.layout import U32, U64, Bit, Field, Layout, bits_of
from qclimb.lengthfile import CANDIDATE, ENTRY, LENGTHS_HEADER, PROPOSAL, TAG
from qclimb.policy import Mode, Policy, default_dscp

from hostlib.hostd import tagger
from tests.contract.strategies import U64 as LARGEST
from tests.contract.strategies import u
from tests.contract.test_hostfile import MODEL_FILE, POLICY_FILE, with_bytes
from tests.contract.trees import Tree, forest_of, leaf, split
from tests.tiers import examples

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INCLUDE = ROOT / "hostlib" / "core" / "include"
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
    loaded.constants.restype = ctypes.c_char_p
    loaded.policy_verify.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    array = np.ctypeslib.ndpointer(np.uint64, flags="C_CONTIGUOUS")
    loaded.model_bounds.argtypes = [ctypes.c_char_p, ctypes.c_size_t, array, ctypes.c_size_t, array]
    loaded.key_of_u64.argtypes, loaded.key_of_u64.restype = [ctypes.c_uint64], ctypes.c_int32
    loaded.bytes_of_key.argtypes, loaded.bytes_of_key.restype = [ctypes.c_int32, ctypes.c_int], ctypes.c_uint64
    return loaded


LAYOUTS = (
    *(POLICY, MODEL_HEADER, NODE, RECORD_HEADER, RECORD, tagger.TAGGER_POLICY),
    *(LENGTHS_HEADER, ENTRY, PROPOSAL, CANDIDATE, TAG),
)


def test_the_header_is_what_the_types_say() -> None:
    """Where this fails, a field came or went: `make layout`."""
    writer = run_path(str(ROOT / "hostlib" / "core" / "write_layout.py"))
    assert writer["HEADER"].read_text() == writer["text"]()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("language", ["c11", "c++17"])
def test_a_compiler_puts_each_field_where_python_does(layout: Layout, language: str) -> None:
    check, name = "_Static_assert" if language == "c11" else "static_assert", f"struct {layout.name}"
    lines = [f"#include <qclimb/{header}.h>" for header in ("model", "policy", "record", "lengths", "propose")] + [
        '#include "tagger.h"'
    ]
    lines += ["#include <stddef.h>", f'{check}(sizeof({name}) == {layout.size}, "size");']
    for field, found in layout.fields.items():
        size = found.kind.width * max(found.kind.count, 1)
        lines.append(f'{check}(offsetof({name}, {field}) == {layout.offset[field]}, "{field}");')
        lines.append(f'{check}(sizeof((({name} *)0)->{field}) == {size}, "{field}");')
    kind = "c" if language == "c11" else "c++"
    flags = ["-x", kind, f"-std={language}", "-fsyntax-only", f"-I{INCLUDE}", f"-I{ROOT}/hostlib/tagger", "-"]
    subprocess.run([str(COMPILER), *flags], input="\n".join(lines), text=True, check=True)


def test_the_tagger_and_hostd_count_alike() -> None:
    numbers = {"TAGGER_FILTER": tagger.FILTER, "TAGGER_COUNTS": len(tagger.COUNTS), "TAGGER_JUDGED": tagger.JUDGED}
    numbers |= {f"TAGGER_{name.upper()}": number for number, name in enumerate(tagger.COUNTS)}
    lines = ['#include "tagger.h"', *(f'_Static_assert({name} == {n}, "");' for name, n in numbers.items())]
    flags = ["-x", "c", "-std=c11", "-fsyntax-only", f"-I{INCLUDE}", f"-I{ROOT}/hostlib/tagger", "-"]
    subprocess.run([str(COMPILER), *flags], input="\n".join(lines), text=True, check=True)


@pytest.mark.parametrize(("spines", "priorities"), [(0, 4), (0, 8), (2, 7), (3, 4), (3, 16), (4, 29)])
def test_the_filter_is_told_what_proves_a_loss_as_the_header_tells_paths(
    c: ctypes.CDLL, spines: int, priorities: int
) -> None:
    told = Policy(1, Mode.PIAS, tuple(range(1, priorities)), tuple(range(1, priorities + 1)), 0, spines=spines)
    file = encode_policy(told)
    known = range(min(priorities, tagger.JUDGED))
    for p, proves in zip(known, tagger.proves_loss(told), strict=False):
        assert [bool(proves >> q & 1) for q in known] == [q >= p and bool(c.shares_path(file, p, q)) for q in known]
        assert proves >> p & 1


@pytest.mark.parametrize("second", [1, 4])
def test_a_bit_that_is_left_out_or_taken_twice_is_refused(second: int) -> None:
    flags = make_dataclass("Flags", [("a", Annotated[bool, Bit(1)]), ("b", Annotated[bool, Bit(second)])])
    with pytest.raises(ValueError, match=rf"Flags has the bits \[1, {second}\], expected 1, 2, 4"):
        bits_of(flags)


def test_a_layout_that_c_would_pad_is_refused() -> None:
    with pytest.raises(ValueError, match=r"s\.b lies at byte 4, expected a multiple of 8"):
        Layout("s", {"a": Field(U32), "b": Field(U64)})
    with pytest.raises(ValueError, match="s has 12 bytes, expected a multiple of its widest field"):
        Layout("s", {"b": Field(U64), "a": Field(U32)})


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


FEATURE_IDS = st.permutations(range(len(FEATURES))).map(lambda order: tuple(order[:4]))
SPLITS = st.sampled_from([0.0, 0.5, 1.0, 3.0, 80.0, 65535.0, 16777217.0, 1e9, 1.8e19, 3e38]) | u(LARGEST).map(float)
LEAVES = st.tuples(u(LARGEST), u(1 << 24)).map(lambda two: leaf(*sorted(two)))
TREES = st.recursive(LEAVES, lambda inner: st.builds(split, st.integers(0, 3), SPLITS, inner, inner), max_leaves=12)
VALUES = u(LARGEST) | st.sampled_from([0, 1, 3, 4, 80, 65535, 16777216, 16777217, 16777219, 10**9])
ROWS = st.lists(st.tuples(*[VALUES] * len(FEATURES)), min_size=1, max_size=8)


@settings(max_examples=examples(50))
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
    assert json.loads(c.constants()) == {
        "max_priorities": policy.MAX_PRIORITIES,
        "max_trees": forest.MAX_TREES,
        "max_depth": forest.MAX_DEPTH,
        "max_nodes": forest.MAX_NODES,
        "features": len(FEATURES),
        "max_features": MODEL_HEADER.fields["feature_id"].kind.count,
        "service_port": FEATURES.index("service_port"),
        "last_sizes": RECORD.fields["last_size_bytes"].kind.count,
        "modes": [mode.number for mode in Mode],
    }
