"""The host's files and datagrams: they come back as they were, and damage is named."""

import contextlib
import hashlib
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.errors import ModelError, PolicyError, QclimbError, RecordError
from qclimb.forest import Forest
from qclimb.hostfile import (
    MODEL_HEADER,
    POLICY,
    RECORD,
    RECORD_HEADER,
    check_forest_file,
    decode_forest,
    decode_policy,
    decode_records,
    encode_forest,
    encode_policy,
    encode_records,
)
from qclimb.layout import kinds_of
from qclimb.policy import Mode, Policy, default_dscp
from qclimb.record import FlowRecord, RecordBatch

from tests.contract.strategies import U32, U64, policies, records, u
from tests.contract.trees import forest_of, leaf, split

POLICY_FILE = encode_policy(Policy(7, Mode.QCLIMB, (3, 6), default_dscp(3), 5000))
AT = POLICY.offset["threshold_bytes"]
MODEL_FILE = encode_forest(forest_of(split(0, 5.0, leaf(1, 5), leaf(6, 1 << 40)), leaf(2, 9), depth=1))
DATAGRAM = encode_records(RecordBatch((FlowRecord(start_ns=5, last_write_ns=6, size_bytes=7),), 3, 9))


def with_bytes(data: bytes, offset: int, new: bytes, *, crc: bool = True) -> bytes:
    """`data` with `new` at `offset`, and the CRC at its end made right again where `crc`."""
    changed = data[:offset] + new + data[offset + len(new) :]
    return changed[:-4] + struct.pack("<I", zlib.crc32(changed[:-4])) if crc else changed


@given(policies())
def test_a_policy_comes_back_from_its_file(policy: Policy) -> None:
    data = encode_policy(policy)
    assert len(data) == POLICY.size
    assert decode_policy(data) == policy


def test_files_and_datagrams_are_what_older_hosts_have() -> None:
    """Bytes of version 1, of records 2: whoever changes them needs another version."""
    policy = Policy(1 << 40, Mode.PIAS, (3, 6), (47, 43, 39), 5, 6, 7, 8, False, True, False, 9, 10, True)
    record = {name: at + 1 for at, name in enumerate(kinds_of(FlowRecord))}
    record |= {"drained_ns": 5, "last_size_bytes": (1, 2, 3, 4, 5), "mode": Mode.QCLIMB, "role": 1, "comm": "nginx"}
    record |= {"announced_by": 2}
    batch = RecordBatch((FlowRecord(**record | {"local_addr": "10.1.2.3", "peer_addr": "fd00::7"}),), 3, 4)
    digests = [hashlib.sha256(data).hexdigest()[:16] for data in (encode_policy(policy), encode_records(batch))]
    assert digests == ["307d380e44038459", "da7fad1b5e7698f6"]


@given(st.lists(records(), max_size=4), u(U32), u(U64))
def test_records_come_back_from_their_datagram(found: list[FlowRecord], dropped: int, generation: int) -> None:
    batch = RecordBatch(tuple(found), dropped, generation)
    data = encode_records(batch)
    assert len(data) == RECORD_HEADER.size + len(found) * RECORD.size
    assert decode_records(data) == batch


def test_a_forest_comes_back_from_its_file() -> None:
    forest = decode_forest(MODEL_FILE)
    assert isinstance(forest, Forest)
    assert encode_forest(forest) == MODEL_FILE
    assert check_forest_file(MODEL_FILE) == forest.generation == 1
    assert np.array_equal(forest.predict_bytes([[5.0], [6.0]]), [[1, 2], [9, 1 << 40]])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", f"policy file has 0 bytes, expected {POLICY.size}"),
        (POLICY_FILE[:-1], f"policy file has {POLICY.size - 1} bytes, expected {POLICY.size}"),
        (with_bytes(POLICY_FILE, 0, b"QCM1"), "policy file magic is 0x314d4351, expected 0x314c4351 (QCL1)"),
        (with_bytes(POLICY_FILE, 4, b"\2\0"), "policy file version is 2, expected 1"),
        (with_bytes(POLICY_FILE, 6, b"\0\1"), f"policy file struct_bytes is 256, expected {POLICY.size}"),
        (with_bytes(POLICY_FILE, 16, b"\4"), "policy file mode is 4, expected an integer in 0..3"),
        (with_bytes(POLICY_FILE, 20, b"\x7f"), "policy file flags is 127, expected an integer in 0..63"),
        (with_bytes(POLICY_FILE, 24, b"\0"), "policy file priorities is 0, expected an integer in 1..64"),
        (with_bytes(POLICY_FILE, 24, b"\x41"), "policy file priorities is 65, expected an integer in 1..64"),
        (with_bytes(POLICY_FILE, AT, b"\1"), "policy file threshold_bytes[0] is 1, expected 0"),
        (with_bytes(POLICY_FILE, AT + 24, b"\0"), f"policy file threshold_bytes[3] is {U64 - 255}, expected {U64}"),
        (
            with_bytes(POLICY_FILE, AT + 16, b"\2"),
            "threshold_bytes[1] is 2, expected more than the one before it, 3",
        ),
        (with_bytes(POLICY_FILE, POLICY.offset["dscp"], b"\x40"), "dscp[0] is 64, expected an integer in 0..63"),
    ],
)
def test_a_wrong_policy_file_is_refused_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(PolicyError) as refusal:
        decode_policy(data)
    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (MODEL_FILE[:55], "model file has 55 bytes, expected at least 56"),
        (MODEL_FILE + b"\0", f"model file has {len(MODEL_FILE) + 1} bytes, expected {len(MODEL_FILE)} for 2 trees"),
        (with_bytes(MODEL_FILE, 0, b"QCL1"), "model file magic is 0x314c4351, expected 0x314d4351 (QCM1)"),
        (with_bytes(MODEL_FILE, 4, b"\0"), "model file version is 0, expected 1"),
        (with_bytes(MODEL_FILE, 8, bytes(8)), "model file generation is 0, expected an integer in 1..2^64-1"),
        (with_bytes(MODEL_FILE, 20, b"\x21"), "depth is 33, expected an integer in 0..32"),
        (with_bytes(MODEL_FILE, 20, b"\0"), "goes on after 0 steps from a root"),
        (with_bytes(MODEL_FILE, 28, b"\3"), "model file leaves is 3, expected 4"),
        (with_bytes(MODEL_FILE, 32, b"\x11"), "model file features is 17, expected an integer in 1..16"),
        (with_bytes(MODEL_FILE, 36, b"\x0c"), "model file feature_id[0] is 12, expected an integer in 0..11"),
        (with_bytes(MODEL_FILE, MODEL_HEADER.size, b"\4"), "roots[0] is 4, expected a node in 0..3"),
    ],
)
def test_a_wrong_model_file_is_refused_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(ModelError) as refusal:
        decode_forest(data)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"QCR1", "datagram has 4 bytes, expected at least 24"),
        (DATAGRAM[:-1], "datagram has 239 bytes, expected 240 for 1 records"),
        (with_bytes(DATAGRAM, 0, b"QCL1", crc=False), "datagram magic is 0x314c4351, expected 0x31524351 (QCR1)"),
        (with_bytes(DATAGRAM, 4, b"\1", crc=False), "datagram version is 1, expected 2"),
        (with_bytes(DATAGRAM, 6, b"\xd9", crc=False), "datagram record_bytes is 217, expected 216"),
        (with_bytes(DATAGRAM, 8, b"\xff\xff\xff\xff", crc=False), "expected 927712935744 for 4294967295 records"),
        (
            with_bytes(DATAGRAM, 24 + RECORD.offset["mode"], b"\4", crc=False),
            "datagram record 0 mode is 4, expected an integer in 0..3",
        ),
        (with_bytes(DATAGRAM, 24 + 24, bytes(8), crc=False), "datagram record 0 size_bytes is 0, expected at least 1"),
        (with_bytes(DATAGRAM, 24, b"\7", crc=False), "record 0 last_write_ns is 6, expected start_ns = 7 or later"),
    ],
)
def test_a_wrong_datagram_is_refused_with_its_place(data: bytes, said: str) -> None:
    with pytest.raises(RecordError) as refusal:
        decode_records(data)
    assert said in str(refusal.value)


@pytest.mark.parametrize(("decode", "data"), [(decode_policy, POLICY_FILE), (decode_forest, MODEL_FILE)])
def test_every_damaged_byte_of_a_file_is_noticed(decode: Callable[[bytes], object], data: bytes) -> None:
    for offset in range(len(data)):
        with pytest.raises(QclimbError):
            decode(with_bytes(data, offset, bytes([data[offset] ^ 0x10]), crc=False))


@pytest.mark.parametrize("data", [POLICY_FILE, MODEL_FILE, DATAGRAM])
@given(st.data())
def test_no_bytes_fail_otherwise(data: bytes, draw: st.DataObject) -> None:
    offset = draw.draw(st.integers(0, len(data) - 1))
    changed = with_bytes(data, offset, draw.draw(st.binary(min_size=1, max_size=8)), crc=data is not DATAGRAM)
    for decode in (decode_policy, decode_forest, decode_records):
        with contextlib.suppress(QclimbError):
            decode(changed)


def test_a_process_name_that_is_no_utf8_still_counts() -> None:
    data = with_bytes(DATAGRAM, 24 + RECORD.offset["comm"], b"b\xffd\0garbage", crc=False)
    assert decode_records(data).records[0].comm == "b?d"
