"""The binary forms that hosts read and write: `/run/qclimb/policy`, `/run/qclimb/model`, and datagrams of records.

Little endian, laid out by the fields' types (`layout`), from which the C structs are written, too. A field that comes
or goes is a new VERSION. Files end in a CRC-32 (IEEE, zlib's). Decoding trusts nothing: what is short, of another kind
or version, damaged or impossible is refused with its place.
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
from .layout import I32, U8, U16, U32, U64, Field, Layout, bits_of, fields_of
from .policy import MAX_PRIORITIES, Mode, Policy
from .record import FlowRecord, RecordBatch
from .text import program_name

if TYPE_CHECKING:
    from .forest import Forest

VERSION = 1
RECORD_VERSION = 2  # announced lengths
POLICY_MAGIC, MODEL_MAGIC, RECORD_MAGIC = 0x314C4351, 0x314D4351, 0x31524351  # "QCL1", "QCM1", "QCR1"

CRC = struct.Struct("<I")
ABOUT_CRC = "of all bytes before"
POLICY_BITS = {name: bit for name, (bit, _) in bits_of(Policy).items()}


def _policy_fields() -> dict[str, Field]:
    """Numbers of 4 bytes, of 8, tables, numbers of 1, each in the order of `Policy`: so nothing needs padding."""
    told = fields_of(Policy)
    fields = {
        "magic": Field(U32),
        "version": Field(U16),
        "struct_bytes": Field(U16, "sizeof(struct qclimb_policy)"),
        "generation": told.pop("generation"),
        "mode": told.pop("mode"),
        "flags": Field(U32.up_to(sum(POLICY_BITS.values())), "enum qclimb_policy_flag, or-ed"),
        "priorities": Field(U32, "1 to QCLIMB_MAX_PRIORITIES"),
    }
    narrow = {name: field for name, field in told.items() if field.kind.width == 4}
    if len(narrow) % 2 == 0:  # with mode, flags and priorities an odd number of words
        narrow["reserved0"] = Field(U32)
    wide = {name: field for name, field in told.items() if field.kind.width == 8 and not field.kind.count}
    tables = {name: field for name, field in told.items() if field.kind.count}
    octets = {name: field for name, field in told.items() if field.kind.width == 1 and not field.kind.count}
    assert len(octets) == 2  # with reserved1 one word; both were a part of it at first, as zeros
    return fields | narrow | wide | tables | octets | {"reserved1": Field(U16), "crc32": Field(U32, ABOUT_CRC)}


POLICY = Layout("qclimb_policy", _policy_fields())
MODEL_HEADER = Layout(
    "qclimb_model_header",
    {
        "magic": Field(U32),
        "version": Field(U16),
        "header_bytes": Field(U16, "sizeof(struct qclimb_model_header)"),
        "generation": Field(U64),
        "trees": Field(U32),
        "depth": Field(U32),
        "nodes": Field(U32),
        "leaves": Field(U32, "== nodes: the two bound arrays have an entry a node"),
        "features": Field(U32),
        "feature_id": Field(U8.table(16)),
        "reserved": Field(U32),
    },
)
NODE = Layout(
    "qclimb_node",
    {
        "threshold_key": Field(I32, "row key <= this: to child, else to child + 1"),
        "feature": Field(I32),
        "child": Field(I32),
    },
)
RECORD_HEADER = Layout(
    "qclimb_record_header",
    {
        "magic": Field(U32),
        "version": Field(U16),
        "record_bytes": Field(U16, "sizeof(struct qclimb_record)"),
        "count": Field(U32),
        "dropped": Field(U32, "records that this process could not hand over since the last header"),
        "hostlib_generation": Field(U64, "generation of the policy in force"),
    },
)
RECORD = Layout("qclimb_record", fields_of(FlowRecord))


def encode_policy(policy: Policy) -> bytes:
    """The policy file: one `struct qclimb_policy`."""
    unused = [UINT64_MAX] * (MAX_PRIORITIES - policy.priorities)
    told = vars(policy) | {
        "magic": POLICY_MAGIC,
        "version": VERSION,
        "struct_bytes": POLICY.size,
        "mode": policy.mode.number,
        "flags": sum(bit for name, bit in POLICY_BITS.items() if getattr(policy, name)),
        "priorities": policy.priorities,
        "threshold_bytes": (0, *policy.threshold_bytes, *unused),
        "dscp": bytes(policy.dscp),
    }
    body = POLICY.pack(dict.fromkeys(("reserved0", "reserved1", "crc32"), 0) | told)[: -CRC.size]
    return body + CRC.pack(zlib.crc32(body))


def decode_policy(data: bytes) -> Policy:
    """The policy of a file's bytes; raises PolicyError."""
    if len(data) != POLICY.size:
        raise PolicyError(f"policy file has {len(data)} bytes, expected {POLICY.size}")
    told = POLICY.unpack(data)
    check_kind("policy file", told["magic"], POLICY_MAGIC, told["version"], PolicyError)
    check_equal("policy file struct_bytes", told["struct_bytes"], POLICY.size, PolicyError)
    check_crc("policy file", data, PolicyError)
    for name in ("mode", "flags"):
        integer(told[name], f"policy file {name}", 0, POLICY.fields[name].kind.highest, PolicyError)
    priorities = integer(told["priorities"], "policy file priorities", 1, MAX_PRIORITIES, PolicyError)
    thresholds = told["threshold_bytes"]
    check_equal("policy file threshold_bytes[0]", thresholds[0], 0, PolicyError)
    for index in range(priorities, MAX_PRIORITIES):
        check_equal(f"policy file threshold_bytes[{index}]", thresholds[index], UINT64_MAX, PolicyError)
    told |= {name: bool(told["flags"] & bit) for name, bit in POLICY_BITS.items()}
    told |= {"mode": Mode.of_number(told["mode"]), "threshold_bytes": thresholds[1:priorities]}
    told |= {"dscp": tuple(told["dscp"][:priorities])}
    return Policy(**{field.name: told[field.name] for field in dataclasses.fields(Policy)})


def encode_forest(forest: "Forest") -> bytes:
    """The model file: header, roots, nodes, lower keys, upper keys, CRC."""
    header = MODEL_HEADER.pack(
        {
            "magic": MODEL_MAGIC,
            "version": VERSION,
            "header_bytes": MODEL_HEADER.size,
            "generation": forest.generation,
            "trees": forest.trees,
            "depth": forest.depth,
            "nodes": forest.nodes,
            "leaves": forest.nodes,
            "features": len(forest.feature_ids),
            "feature_id": bytes(forest.feature_ids),
            "reserved": 0,
        }
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
    told = MODEL_HEADER.unpack(data)
    trees, nodes, features = told["trees"], told["nodes"], told["features"]
    check_kind("model file", told["magic"], MODEL_MAGIC, told["version"], ModelError)
    check_equal("model file header_bytes", told["header_bytes"], MODEL_HEADER.size, ModelError)
    check_equal("model file leaves", told["leaves"], nodes, ModelError)
    expected = MODEL_HEADER.size + 4 * trees + (NODE.size + 8) * nodes + CRC.size
    if len(data) != expected:
        raise ModelError(f"model file has {len(data)} bytes, expected {expected} for {trees} trees and {nodes} nodes")
    check_crc("model file", data, ModelError)
    integer(told["generation"], "model file generation", 1, UINT64_MAX, ModelError)
    integer(features, "model file features", 1, 16, ModelError)
    for index, feature in enumerate(told["feature_id"][:features]):
        integer(feature, f"model file feature_id[{index}]", 0, len(FEATURES) - 1, ModelError)
    return told["generation"], trees, told["depth"], nodes, tuple(told["feature_id"][:features])


def encode_record_header(count: int, dropped: int = 0, generation: int = 0) -> bytes:
    """What stands before so many packed records."""
    told = {"magic": RECORD_MAGIC, "version": RECORD_VERSION, "record_bytes": RECORD.size}
    return RECORD_HEADER.pack(told | {"count": count, "dropped": dropped, "hostlib_generation": generation})


def encode_records(batch: RecordBatch) -> bytes:
    """One datagram of records, as libqclimb sends it."""
    header = encode_record_header(len(batch.records), batch.dropped, batch.generation)
    return header + b"".join(map(_pack_record, batch.records))


def decode_record_header(datagram: bytes | memoryview) -> tuple[int, int, int]:
    """(records, dropped, generation) of a datagram whose outside is right; raises RecordError."""
    if len(datagram) < RECORD_HEADER.size:
        raise RecordError(f"datagram has {len(datagram)} bytes, expected at least {RECORD_HEADER.size}")
    told = RECORD_HEADER.unpack(datagram)
    check_kind("datagram", told["magic"], RECORD_MAGIC, told["version"], RecordError, RECORD_VERSION)
    check_equal("datagram record_bytes", told["record_bytes"], RECORD.size, RecordError)
    expected = RECORD_HEADER.size + told["count"] * RECORD.size
    if len(datagram) != expected:
        raise RecordError(f"datagram has {len(datagram)} bytes, expected {expected} for {told['count']} records")
    return told["count"], told["dropped"], told["hostlib_generation"]


def decode_records(datagram: bytes) -> RecordBatch:
    """The records of one datagram; raises RecordError, and then none of them counts."""
    _, dropped, generation = decode_record_header(datagram)
    places = range(RECORD_HEADER.size, len(datagram), RECORD.size)
    records = (_record(index, RECORD.unpack(datagram, at)) for index, at in enumerate(places))
    return RecordBatch(tuple(records), dropped, generation)


def _pack_record(record: FlowRecord) -> bytes:
    return RECORD.pack(
        vars(record)
        | {
            "local_addr": _pack_address(record.local_addr),
            "peer_addr": _pack_address(record.peer_addr),
            "mode": record.mode.number,
            "comm": record.comm.encode("utf-8", "replace"),
        }
    )


def _record(index: int, found: dict[str, Any]) -> FlowRecord:
    place = f"datagram record {index}"
    found["mode"] = Mode.of_number(integer(found["mode"], f"{place} mode", 0, len(Mode) - 1, RecordError))
    for name in ("local_addr", "peer_addr"):
        found[name] = _address_text(found[name])
    found["comm"] = program_name(found["comm"])
    try:
        return FlowRecord(**found)
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


def check_kind(
    place: str, magic: int, expected: int, version: int, error: type[QclimbError], of: int = VERSION
) -> None:
    """Refuses a file or datagram of another kind or version."""
    if magic != expected:
        raise error(f"{place} magic is {magic:#010x}, expected {expected:#010x} ({CRC.pack(expected).decode()})")
    check_equal(f"{place} version", version, of, error)


def check_equal(place: str, value: int, expected: int, error: type[QclimbError]) -> None:
    """Refuses another number."""
    if value != expected:
        raise error(f"{place} is {value}, expected {expected}")


def check_crc(place: str, data: bytes, error: type[QclimbError]) -> None:
    """Refuses bytes whose last four are not the CRC-32 of those before."""
    (stored,) = CRC.unpack_from(data, len(data) - CRC.size)
    computed = zlib.crc32(memoryview(data)[: -CRC.size])
    if stored != computed:
        raise error(f"{place} crc32 is {stored:#010x}, expected {computed:#010x} of the bytes before it")
