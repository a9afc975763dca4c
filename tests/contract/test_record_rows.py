"""Rows of flows are what the records are, one by one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.delivery import decode_delivery, encode_delivery
from qclimb.errors import RecordError
from qclimb.histogram import LAST_BUCKET, SizeHistogram, bucket_of, middle_of
from qclimb.hostfile import RECORD, RECORD_HEADER, decode_records, encode_record_header
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord
from qclimb.record_rows import (
    KEPT,
    ROW,
    buckets_of,
    count_sizes,
    decode_rows,
    encode_rows,
    features,
    from_records,
    kept,
    possible,
    rows_of,
    to_records,
)

from tests.contract.strategies import records

OFFSETS = {name: ROW.fields[name][1] for name in ROW.names}
EDGES = [0, 1, 2, 5, 63, 64, 255, 2**32 - 1, 2**63, 2**64 - 1]


@given(st.lists(records(), max_size=6))
def test_rows_come_back_as_the_records_they_were_made_of(found):
    rows = from_records(found)
    assert possible(rows).all()
    assert to_records(rows) == found
    assert np.array_equal(decode_rows(encode_rows(rows)), rows)
    wanted = np.array([record.features() for record in found], dtype=np.uint64).reshape(-1, 12).astype(np.float32)
    assert np.array_equal(features(rows), wanted)


@given(st.lists(records(), max_size=6))
def test_what_is_kept_of_a_row_is_what_the_record_says(found):
    rows = kept(from_records(found))
    for name in ("start_ns", "size_bytes", "lower_bytes", "upper_bytes", "flags"):
        assert rows[name].tolist() == [getattr(record, name) for record in found]
    assert np.array_equal(rows["features"], features(from_records(found)))


def test_rows_that_a_database_has_kept_are_read_as_ever():
    wanted = {"start_ns": 0, "size_bytes": 8, "lower_bytes": 16, "upper_bytes": 24, "flags": 32, "features": 36}
    assert {name: KEPT.fields[name][1] for name in KEPT.names} == wanted
    assert (KEPT.itemsize, KEPT["flags"].str, KEPT["features"].shape) == (84, "<u4", (12,))


@given(
    records(),
    st.sampled_from([name for name in ROW.names if name not in ("local_addr", "peer_addr", "last_size_bytes")]),
    st.sampled_from(EDGES),
)
def test_a_row_is_possible_just_where_its_record_is_one(record, name, value):
    packed = bytearray(from_records([record]).tobytes())
    width = ROW.fields[name][0].itemsize
    packed[OFFSETS[name] : OFFSETS[name] + width] = (value % 256 ** min(width, 8)).to_bytes(width, "little")
    try:
        decode_records(encode_record_header(1) + bytes(packed))
    except RecordError:
        assert not possible(rows_of(bytes(packed)))[0]
        with pytest.raises(RecordError, match="datagram record 0"):
            decode_rows(encode_record_header(1) + bytes(packed))
    else:
        assert possible(rows_of(bytes(packed)))[0]


@given(st.binary(min_size=RECORD.size, max_size=RECORD.size))
def test_no_bytes_are_a_row_that_is_no_record(packed):
    if possible(rows_of(packed))[0]:
        assert len(decode_records(encode_record_header(1) + packed).records) == 1


@given(st.lists(st.integers(1, 2**64 - 1) | st.integers(0, 63).map(lambda power: 2**power), min_size=1, max_size=50))
def test_sizes_fall_into_the_histograms_buckets(sizes):
    assert buckets_of(np.array(sizes, dtype=np.uint64)).tolist() == [bucket_of(size) for size in sizes]
    counts, total = count_sizes(from_records(FlowRecord(start_ns=1, last_write_ns=1, size_bytes=n) for n in sizes))
    assert SizeHistogram({int(at): int(counts[at]) for at in np.flatnonzero(counts)}, total) == SizeHistogram.of(sizes)


def test_every_bucket_ends_where_the_logarithm_says():
    ends = {math.floor(middle_of(bucket) * 1.01) for bucket in range(LAST_BUCKET)} - {0}
    sizes = sorted({min(max(1, end + step), 2**64 - 1) for end in ends for step in range(-2, 3)})
    assert buckets_of(np.array(sizes, dtype=np.uint64)).tolist() == [bucket_of(size) for size in sizes]


def test_what_was_seen_only_in_part_is_in_no_bucket():
    whole = FlowRecord(start_ns=1, last_write_ns=1, size_bytes=2**64 - 1)
    part = FlowRecord(start_ns=1, last_write_ns=1, size_bytes=5, flags=PARTLY_UNOBSERVED)
    counts, total = count_sizes(from_records([whole, part] * 3))
    assert (counts.sum(), counts[LAST_BUCKET], total) == (3, 3, 3 * (2**64 - 1))


def test_a_delivery_is_a_line_and_the_rows():
    rows = from_records([FlowRecord(start_ns=1, last_write_ns=1, size_bytes=10)] * 3)  # 10 is "\n", also in the rows
    content = encode_delivery({"dropped": 1, "label": "a\nb"}, rows)
    line, found = decode_delivery(content)
    assert line == b'{"dropped":1,"label":"a\\nb"}'
    assert np.array_equal(found, rows)
    assert len(content) == len(line) + 1 + RECORD_HEADER.size + 3 * RECORD.size
