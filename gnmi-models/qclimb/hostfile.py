"""The binary forms that hosts read and write: `/run/qclimb/policy`, `/run/qclimb/model`, and datagrams of records.

Little endian, laid out as the C structs of hostlib/core/include/qclimb/{policy,model,record}.h, which a test compares
byte by byte. Files end in a CRC-32 (IEEE, zlib's). Decoding trusts nothing: what is short, of another kind or
version, damaged or impossible is refused with its place.
"""

import dataclasses
import ipaddress
import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .checks import UINT64_MAX, integer
from .errors import ModelError, PolicyError, QclimbError, RecordError
from .features import FEATURES
from .policy import MAX_PRIORITIES, Mode, Policy
from .record import FlowRecord, RecordBatch

if TYPE_CHECKING:
    from .forest import Forest

VERSION = 1

POLICY_MAGIC = 0x314C4351  # "QCL1"
POLICY = struct.Struct(f"<IHHQ 6I 3Q {MAX_PRIORITIES}Q {MAX_PRIORITIES}s II")
USE_FOREST, USE_FOOTPRINT, QUICKACK, OPTAX = 1, 2, 4, 8

MODEL_MAGIC = 0x314D4351  # "QCM1"
MODEL_HEADER = struct.Struct("<IHHQ 5I 16s I")
NODE = struct.Struct("<iii")

RECORD_MAGIC = 0x31524351  # "QCR1"
RECORD_HEADER = struct.Struct("<IHHIIQ")
RECORD = struct.Struct("<3Q 3Q 2Q 2Q 5Q 2Q 4I 16s16s HH 4B 16s")

CRC = struct.Struct("<I")

assert (POLICY.size, MODEL_HEADER.size, NODE.size, RECORD_HEADER.size, RECORD.size) == (648, 56, 12, 24, 208)


def encode_policy(policy: Policy) -> bytes:
    """The policy file: one `struct qclimb_policy`."""
    flags = USE_FOREST * policy.use_forest | USE_FOOTPRINT * policy.use_footprint
    flags |= QUICKACK * policy.quickack | OPTAX * policy.optax
    unused = [UINT64_MAX] * (MAX_PRIORITIES - policy.priorities)
    body = POLICY.pack(
        POLICY_MAGIC,
        VERSION,
        POLICY.size,
        policy.generation,
        policy.mode.number,
        flags,
        policy.priorities,
        policy.flow_gap_us,
        policy.promote_wait_us,
        policy.deadline_step_us,
        policy.slack_bytes,
        policy.small_coflow_bytes,
        policy.model_generation,
        *(0, *policy.threshold_bytes, *unused),
        bytes(policy.dscp),
        0,
        0,
    )[: -CRC.size]
    return body + CRC.pack(zlib.crc32(body))


def decode_policy(data: bytes) -> Policy:
    """The policy of a file's bytes; raises PolicyError."""
    if len(data) != POLICY.size:
        raise PolicyError(f"policy file has {len(data)} bytes, expected {POLICY.size}")
    magic, version, size, generation, mode, flags, priorities, gap, wait, step, *rest = POLICY.unpack(data)
    slack, small, model, *rest = rest
    _check_kind("policy file", magic, POLICY_MAGIC, version, PolicyError)
    _check_equal("policy file struct_bytes", size, POLICY.size, PolicyError)
    _check_crc("policy file", data, PolicyError)
    thresholds, dscp = rest[:MAX_PRIORITIES], rest[MAX_PRIORITIES]
    integer(mode, "policy file mode", 0, len(Mode) - 1, PolicyError)
    integer(flags, "policy file flags", 0, USE_FOREST | USE_FOOTPRINT | QUICKACK | OPTAX, PolicyError)
    integer(priorities, "policy file priorities", 1, MAX_PRIORITIES, PolicyError)
    _check_equal("policy file threshold_bytes[0]", thresholds[0], 0, PolicyError)
    for index in range(priorities, MAX_PRIORITIES):
        _check_equal(f"policy file threshold_bytes[{index}]", thresholds[index], UINT64_MAX, PolicyError)
    return Policy(
        generation=generation,
        mode=Mode.of_number(mode),
        threshold_bytes=tuple(thresholds[1:priorities]),
        dscp=tuple(dscp[:priorities]),
        slack_bytes=slack,
        small_coflow_bytes=small,
        flow_gap_us=gap,
        promote_wait_us=wait,
        use_forest=bool(flags & USE_FOREST),
        use_footprint=bool(flags & USE_FOOTPRINT),
        quickack=bool(flags & QUICKACK),
        model_generation=model,
        deadline_step_us=step,
        optax=bool(flags & OPTAX),
    )


def encode_forest(forest: "Forest") -> bytes:
    """The model file: header, roots, nodes, lower keys, upper keys, CRC."""
    header = MODEL_HEADER.pack(
        MODEL_MAGIC,
        VERSION,
        MODEL_HEADER.size,
        forest.generation,
        forest.trees,
        forest.depth,
        forest.nodes,
        forest.nodes,
        len(forest.feature_ids),
        bytes(forest.feature_ids),
        0,
    )
    body = header + forest.to_tables()
    return body + CRC.pack(zlib.crc32(body))


def check_forest_file(data: bytes) -> int:
    """The model's generation, once kind, length and CRC are right. Raises ModelError."""
    return int(_model_header(data)[0])


def decode_forest(data: bytes) -> "Forest":
    """The forest of a model file's bytes; raises ModelError."""
    from .forest import Forest

    generation, trees, depth, nodes, feature_ids = _model_header(data)
    return Forest.from_tables(generation, feature_ids, trees, depth, nodes, data[MODEL_HEADER.size : -CRC.size])


def _model_header(data: bytes) -> tuple[int, int, int, int, tuple[int, ...]]:
    """(generation, trees, depth, nodes, feature ids) of a file whose outside is right."""
    if len(data) < MODEL_HEADER.size:
        raise ModelError(f"model file has {len(data)} bytes, expected at least {MODEL_HEADER.size}")
    magic, version, size, generation, trees, depth, nodes, leaves, features, ids, _ = MODEL_HEADER.unpack_from(data)
    _check_kind("model file", magic, MODEL_MAGIC, version, ModelError)
    _check_equal("model file header_bytes", size, MODEL_HEADER.size, ModelError)
    _check_equal("model file leaves", leaves, nodes, ModelError)
    expected = MODEL_HEADER.size + 4 * trees + (NODE.size + 8) * nodes + CRC.size
    if len(data) != expected:
        raise ModelError(f"model file has {len(data)} bytes, expected {expected} for {trees} trees and {nodes} nodes")
    _check_crc("model file", data, ModelError)
    integer(generation, "model file generation", 1, UINT64_MAX, ModelError)
    integer(features, "model file features", 1, 16, ModelError)
    for index, feature in enumerate(ids[:features]):
        integer(feature, f"model file feature_id[{index}]", 0, len(FEATURES) - 1, ModelError)
    return generation, trees, depth, nodes, tuple(ids[:features])


def encode_record_header(count: int, dropped: int = 0, generation: int = 0) -> bytes:
    """What stands before so many packed records."""
    return RECORD_HEADER.pack(RECORD_MAGIC, VERSION, RECORD.size, count, dropped, generation)


def encode_records(batch: RecordBatch) -> bytes:
    """One datagram of records, as libqclimb sends it."""
    header = encode_record_header(len(batch.records), batch.dropped, batch.generation)
    return header + b"".join(map(_pack_record, batch.records))


def decode_record_header(datagram: bytes | memoryview) -> tuple[int, int, int]:
    """(records, dropped, generation) of a datagram whose outside is right; raises RecordError."""
    if len(datagram) < RECORD_HEADER.size:
        raise RecordError(f"datagram has {len(datagram)} bytes, expected at least {RECORD_HEADER.size}")
    magic, version, size, count, dropped, generation = RECORD_HEADER.unpack_from(datagram)
    _check_kind("datagram", magic, RECORD_MAGIC, version, RecordError)
    _check_equal("datagram record_bytes", size, RECORD.size, RecordError)
    expected = RECORD_HEADER.size + count * RECORD.size
    if len(datagram) != expected:
        raise RecordError(f"datagram has {len(datagram)} bytes, expected {expected} for {count} records")
    return count, dropped, generation


def decode_records(datagram: bytes) -> RecordBatch:
    """The records of one datagram; raises RecordError, and then none of them counts."""
    _, dropped, generation = decode_record_header(datagram)
    body = memoryview(datagram)[RECORD_HEADER.size :]
    records = (_record(index, fields) for index, fields in enumerate(RECORD.iter_unpack(body)))
    return RecordBatch(tuple(records), dropped, generation)


def _pack_record(record: FlowRecord) -> bytes:
    return RECORD.pack(
        record.start_ns,
        record.last_write_ns,
        record.drained_ns,
        record.size_bytes,
        record.lower_bytes,
        record.upper_bytes,
        record.first_write_bytes,
        record.footprint_lower_bytes,
        record.start_us,
        record.gap_us,
        *record.last_size_bytes,
        record.connection,
        record.wait_ns,
        record.pid,
        record.flow_index,
        record.promotions,
        record.demotions,
        _pack_address(record.local_addr),
        _pack_address(record.peer_addr),
        record.local_port,
        record.peer_port,
        record.role,
        record.mode.number,
        record.last_priority,
        record.flags,
        record.comm.encode("utf-8", "replace"),
    )


# The fields of RECORD that are one value each, in order; between gap_us and connection stand the five last sizes.
_NAMES = tuple(field.name for field in dataclasses.fields(FlowRecord) if field.name != "last_size_bytes")
_LAST_SIZES = slice(10, 15)


def _record(index: int, packed: tuple[Any, ...]) -> FlowRecord:
    place = f"datagram record {index}"
    found = dict(zip(_NAMES, packed[: _LAST_SIZES.start] + packed[_LAST_SIZES.stop :], strict=True))
    found["mode"] = Mode.of_number(integer(found["mode"], f"{place} mode", 0, len(Mode) - 1, RecordError))
    for name in ("local_addr", "peer_addr"):
        found[name] = _address_text(found[name])
    found["comm"] = found["comm"].split(b"\0")[0][:15].decode("utf-8", "replace").replace("\ufffd", "?")
    try:
        return FlowRecord(last_size_bytes=packed[_LAST_SIZES], **found)
    except RecordError as error:
        raise RecordError(f"{place} {error}") from None


@lru_cache(4096)
def _address_text(packed: bytes) -> str:
    return str(ipaddress.IPv6Address(packed))


@lru_cache(4096)
def _pack_address(address: str) -> bytes:
    """16 bytes; IPv4 as v4-mapped (RFC 4291 section 2.5.5.2)."""
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def _check_kind(place: str, magic: int, expected: int, version: int, error: type[QclimbError]) -> None:
    if magic != expected:
        raise error(f"{place} magic is {magic:#010x}, expected {expected:#010x} ({CRC.pack(expected).decode()})")
    _check_equal(f"{place} version", version, VERSION, error)


def _check_equal(place: str, value: int, expected: int, error: type[QclimbError]) -> None:
    if value != expected:
        raise error(f"{place} is {value}, expected {expected}")


def _check_crc(place: str, data: bytes, error: type[QclimbError]) -> None:
    (stored,) = CRC.unpack_from(data, len(data) - CRC.size)
    computed = zlib.crc32(memoryview(data)[: -CRC.size])
    if stored != computed:
        raise error(f"{place} crc32 is {stored:#010x}, expected {computed:#010x} of the bytes before it")
