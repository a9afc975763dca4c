"""Finished flows as numpy has them: rows laid out as `struct qclimb_record`, thousands checked and counted in one go.

The twin of `FlowRecord`, one row each, with the same bounds of what can be; `hostfile` tells of one record what is
wrong with it. Rows are read-only views of the bytes that they came in.
"""

import zlib
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .features import FEATURES
from .histogram import GAMMA, LAST_BUCKET, bucket_of
from .hostfile import (
    RECORD,
    RECORD_HEADER,
    decode_record_header,
    decode_records,
    encode_record_header,
    encode_records,
)
from .layout import kinds_of
from .record import FOR_MANY, MANY_FLOWS, PARTLY_UNOBSERVED, FlowRecord, RecordBatch

ROW = np.dtype(RECORD.row())
_NARROWED = {name: kind.highest for name, kind in kinds_of(FlowRecord).items() if kind.is_narrowed}

_KEPT = ("start_ns", "size_bytes", "lower_bytes", "upper_bytes")
KEPT = np.dtype([(name, ROW[name]) for name in _KEPT] + [("flags", "<u4"), ("features", "<f4", (len(FEATURES),))])
"""What is kept of a record, in memory and in databases: what forests learn from, and how well the bounds held.

`features` in the order of `features.FEATURES`.
"""

Rows = NDArray[np.void]
BUCKETS = LAST_BUCKET + 1


def rows_of(packed: bytes | memoryview) -> Rows:
    """The records that lie one after another in these bytes, unchecked."""
    return np.frombuffer(packed, dtype=ROW)


def from_records(records: Iterable[FlowRecord]) -> Rows:
    """The same flows as rows."""
    return rows_of(encode_records(RecordBatch(tuple(records)))[RECORD_HEADER.size :])


def to_records(rows: Rows) -> list[FlowRecord]:
    """The same flows one by one; raises RecordError for the first that can't be, and says what is wrong with it."""
    return list(decode_records(encode_rows(rows)).records)


def encode_rows(rows: Rows) -> bytes:
    """The rows as one datagram, of any length."""
    return encode_record_header(len(rows)) + rows.tobytes()


def decode_rows(datagram: bytes | memoryview) -> Rows:
    """The rows of one datagram, of any length; raises RecordError, also for a flow that can't be."""
    decode_record_header(datagram)
    rows = rows_of(memoryview(datagram)[RECORD_HEADER.size :])
    possible_rows = possible(rows)
    if not possible_rows.all():
        to_records(rows[~possible_rows][:1])
    return rows


def possible(rows: Rows) -> NDArray[np.bool_]:
    """Which rows are flows that can be: what `FlowRecord` refuses is none."""
    good = (rows["size_bytes"] >= 1) & (rows["start_ns"] <= rows["last_write_ns"])
    good &= (rows["drained_ns"] == 0) | (rows["last_write_ns"] <= rows["drained_ns"])
    good &= rows["lower_bytes"] <= rows["upper_bytes"]
    for name, highest in _NARROWED.items():
        good &= rows[name] <= highest
    return np.asarray(good)


def flows_of(rows: Rows) -> NDArray[np.uint64]:
    """How many flows each row tells of, where it is no sample's."""
    return np.where(rows["flags"] & FOR_MANY, np.uint64(MANY_FLOWS), np.uint64(1))


def features(rows: Rows) -> NDArray[np.float32]:
    """float32 [rows, 12]: `FlowRecord.features` of each, rounded once (to nearest even)."""
    found = np.empty((len(rows), len(FEATURES)), dtype=np.uint64)
    found[:, 0], found[:, 1] = rows["start_us"], rows["gap_us"]
    found[:, 2:7] = rows["last_size_bytes"]
    found[:, 7] = np.where(rows["role"] == 1, rows["local_port"], rows["peer_port"])
    found[:, 8] = rows["role"]
    found[:, 9], found[:, 10] = _address_numbers(rows["peer_addr"]), _address_numbers(rows["local_addr"])
    found[:, 11] = rows["first_write_bytes"]
    return found.astype(np.float32)


def kept(rows: Rows) -> Rows:
    """What is KEPT of each."""
    found = np.empty(len(rows), dtype=KEPT)
    for name in (*_KEPT, "flags"):
        found[name] = rows[name]
    found["features"] = features(rows)
    return found


def count_sizes(rows: Rows, flows: NDArray[np.uint64] | None = None) -> tuple[NDArray[np.int64], int]:
    """Flows by bucket of their size, [BUCKETS], and their bytes; but of those that were seen only in part.

    `flows`: each row stands for so many of one size.
    """
    is_whole = (rows["flags"] & PARTLY_UNOBSERVED) == 0
    sizes = rows["size_bytes"][is_whole]
    many = np.ones(len(sizes), np.uint64) if flows is None else flows[is_whole]
    high, low = sizes >> np.uint64(32), sizes & np.uint64(0xFFFF_FFFF)
    total = (int((high * many).sum()) << 32) + int((low * many).sum())  # 64 bits hold the sums of 2^32 flows
    counts = np.bincount(buckets_of(sizes), weights=many, minlength=BUCKETS)  # exact to 2^53
    return counts.astype(np.int64), total


def buckets_of(sizes_bytes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """`histogram.bucket_of` of each size >= 1, exactly: by the largest size of each bucket, and no logarithm."""
    return np.searchsorted(_largest_sizes(), sizes_bytes)


@cache
def _largest_sizes() -> NDArray[np.uint64]:
    """The largest size that `bucket_of` puts into each bucket but the last."""
    found = []
    for bucket in range(LAST_BUCKET):
        end = GAMMA**bucket  # but for rounding, and bucket_of rounds, too: what it says is asked of it
        inside, outside = max(1, int(end * (1 - 1e-10)) - 1), int(end * (1 + 1e-10)) + 2
        while outside - inside > 1:
            between = (outside + inside) // 2
            inside, outside = (between, outside) if bucket_of(between) <= bucket else (inside, between)
        found.append(inside)
    return np.array(found, dtype=np.uint64)


def _address_numbers(addresses: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """`features.address_number` of each, [rows, 16] bytes."""
    wide = addresses.astype(np.uint64)
    numbers = (wide[:, 13] << np.uint64(16)) | (wide[:, 14] << np.uint64(8)) | wide[:, 15]
    mapped = (addresses[:, :10] == 0).all(axis=1) & (addresses[:, 10:12] == 0xFF).all(axis=1)
    for at in np.flatnonzero(~mapped):
        numbers[at] = zlib.crc32(addresses[at].tobytes()) & 0xFFFFFF
    return np.asarray(numbers)
