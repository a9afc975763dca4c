"""The binary forms of announced lengths: `/run/qclimb/lengths`, which libraries read, and what they propose to hostd.

Laid out as the other host files are (`hostfile`). A proposal is what one flow's own first bytes might have said of its
size: places of numbers, and how much each differs from it. The bytes stay in the process.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from .checks import integer
from .errors import LengthError
from .hostfile import CRC, VERSION, check_crc, check_equal, check_kind
from .layout import CHAR, I16, U8, U16, U32, U64, Field, Layout
from .lengths import HEAD_BYTES, Announced, LengthRule, Service, Use
from .text import program_name

LENGTHS_MAGIC, PROPOSAL_MAGIC = 0x314E4351, 0x31504351  # "QCN1", "QCP1"
ENTRIES_MOST = 1024
CANDIDATES_MOST = 64
TAGS_MOST = 16
TAG_BELOW = 64
BIG_ENDIAN = 128

LENGTHS_HEADER = Layout(
    "qclimb_lengths_header",
    {
        "magic": Field(U32),
        "version": Field(U16),
        "entry_bytes": Field(U16, "sizeof(struct qclimb_length_entry)"),
        "count": Field(U32, "of entries, which follow; then a CRC-32 (uint32_t) of all bytes before it"),
        "reserved": Field(U32),
    },
)
ENTRY = Layout(
    "qclimb_length_entry",
    {
        "comm": Field(CHAR.table(16), "the process's name"),
        "port": Field(U16, "of the listening side; 0: all of the kernel's choice"),
        "role": Field(U8.up_to(1), "1: this side accepts, 0: it connects"),
        "state": Field(U8.up_to(len(Use) - 1), "0: its bytes are not looked at, 1: on trial, 2: in force"),
        "constant_bytes": Field(I16, "of the rule, as the next ones (length.h)"),
        "offset": Field(U8),
        "width": Field(U8, "0: there is no rule, and HTTP needs none; on trial: proposals tell tags, too"),
        "is_big_endian": Field(U8.up_to(1)),
        "has_tag": Field(U8.up_to(1)),
        "tag_offset": Field(U8),
        "tag": Field(U8),
        "is_exact": Field(U8.up_to(1), "seen exact, so often that it is an upper bound, too"),
        "reserved0": Field(U8),
        "reserved1": Field(U16),
    },
)
PROPOSAL = Layout(
    "qclimb_proposal",
    {
        "magic": Field(U32),
        "version": Field(U16),
        "candidates": Field(U16, "which follow: QCLIMB_CANDIDATES_MOST at most"),
        "size_bytes": Field(U64, "what the flow turned out to be"),
        "first_write_bytes": Field(U64, "less than that"),
        "comm": Field(CHAR.table(16)),
        "port": Field(U16),
        "role": Field(U8),
        "tags": Field(U8, "which follow the candidates: QCLIMB_TAGS_MOST at most"),
        "reserved1": Field(U32),
    },
)
CANDIDATE = Layout(
    "qclimb_candidate",
    {
        "constant_bytes": Field(I16, "the flow's size - the number"),
        "offset": Field(U8),
        "shape": Field(U8, "the number's width, and 128 where it is big endian"),
    },
)

TAG = Layout("qclimb_tag", {"offset": Field(U8), "tag": Field(U8, "the byte there: a small number")})


def encode_lengths(found: Iterable[Announced]) -> bytes:
    """The file; of more services than fit, those whose rules spoke for most flows, in an order that stays."""
    kept = sorted(found, key=lambda each: (not each.pinned, -each.score.flows, each.service))[:ENTRIES_MOST]
    told = {"magic": LENGTHS_MAGIC, "version": VERSION, "entry_bytes": ENTRY.size, "count": len(kept), "reserved": 0}
    body = LENGTHS_HEADER.pack(told) + b"".join(map(_pack, sorted(kept, key=lambda each: each.service)))
    return body + CRC.pack(zlib.crc32(body))


def _pack(each: Announced) -> bytes:
    rule = each.rule
    return ENTRY.pack(
        dict.fromkeys(ENTRY.fields, 0)
        | {
            "comm": each.service.program.encode("utf-8", "replace"),
            "port": each.service.port,
            "role": each.service.role,
            "state": each.use.number,
            "is_exact": int(each.is_exact),
        }
        | (
            {}
            if rule is None
            else {
                "constant_bytes": rule.constant_bytes,
                "offset": rule.offset,
                "width": rule.width,
                "is_big_endian": int(rule.is_big_endian),
                "has_tag": int(rule.tag is not None),
                "tag_offset": rule.tag_offset or 0,
                "tag": rule.tag or 0,
            }
        )
    )


def decode_lengths(data: bytes) -> list[Announced]:
    """The file's entries, without scores; raises LengthError."""
    if len(data) < LENGTHS_HEADER.size + CRC.size:
        raise LengthError(f"lengths file has {len(data)} bytes, expected at least {LENGTHS_HEADER.size + CRC.size}")
    told = LENGTHS_HEADER.unpack(data)
    check_kind("lengths file", told["magic"], LENGTHS_MAGIC, told["version"], LengthError)
    check_equal("lengths file entry_bytes", told["entry_bytes"], ENTRY.size, LengthError)
    count = integer(told["count"], "lengths file count", 0, ENTRIES_MOST, LengthError)
    check_equal("lengths file length", len(data), LENGTHS_HEADER.size + count * ENTRY.size + CRC.size, LengthError)
    check_crc("lengths file", data, LengthError)
    return [_entry(ENTRY.unpack(data, LENGTHS_HEADER.size + at * ENTRY.size)) for at in range(count)]


def entries_in_force(data: bytes) -> list[bytes]:
    """The file's entries (`ENTRY`) that have a rule in force, as they stand; raises LengthError."""
    found = decode_lengths(data)
    entries = [data[at : at + ENTRY.size] for at in range(LENGTHS_HEADER.size, len(data) - CRC.size, ENTRY.size)]
    return [entry for each, entry in zip(found, entries, strict=True) if each.rule and each.use is Use.IN_FORCE]


def _entry(told: dict[str, int | bytes]) -> Announced:
    state = integer(told["state"], "lengths file state", 0, len(Use) - 1, LengthError)
    rule = None
    if told["width"]:
        tag = (told["tag_offset"], told["tag"]) if told["has_tag"] else (None, None)
        numbers = (told["offset"], told["width"], bool(told["is_big_endian"]), told["constant_bytes"], *tag)
        rule = LengthRule(*numbers)
    service = Service(program_name(told["comm"]), told["role"], told["port"])  # type: ignore[arg-type]
    return Announced(service, rule, list(Use)[state], is_exact=bool(told["is_exact"]))


@dataclass(frozen=True)
class Proposal:
    """What the first bytes of one flow may have said of its size: none of them need be right.

    candidates  each by itself would have foretold just this flow
    tags        what may be the message's type, (offset, byte): told only of services that are asked for it
    """

    service: Service
    size_bytes: int
    first_write_bytes: int
    candidates: tuple[LengthRule, ...]
    tags: tuple[tuple[int, int], ...] = ()


def encode_proposal(proposal: Proposal) -> bytes:
    """One datagram, as libqclimb sends it."""
    told = dict.fromkeys(PROPOSAL.fields, 0) | {
        "magic": PROPOSAL_MAGIC,
        "version": VERSION,
        "candidates": len(proposal.candidates),
        "size_bytes": proposal.size_bytes,
        "first_write_bytes": proposal.first_write_bytes,
        "comm": proposal.service.program.encode("utf-8", "replace"),
        "port": proposal.service.port,
        "role": proposal.service.role,
        "tags": len(proposal.tags),
    }
    shapes = (
        {"constant_bytes": each.constant_bytes, "offset": each.offset, "shape": each.width | _order(each)}
        for each in proposal.candidates
    )
    tags = (TAG.pack({"offset": offset, "tag": tag}) for offset, tag in proposal.tags)
    return PROPOSAL.pack(told) + b"".join((*map(CANDIDATE.pack, shapes), *tags))


def _order(rule: LengthRule) -> int:
    return BIG_ENDIAN if rule.is_big_endian else 0


def is_proposal(datagram: bytes) -> bool:
    """Whether a datagram claims to be one."""
    return datagram[: CRC.size] == CRC.pack(PROPOSAL_MAGIC)


def decode_proposal(datagram: bytes) -> Proposal:
    """The proposal of one datagram; raises LengthError."""
    if len(datagram) < PROPOSAL.size:
        raise LengthError(f"proposal has {len(datagram)} bytes, expected at least {PROPOSAL.size}")
    told = PROPOSAL.unpack(datagram)
    check_kind("proposal", told["magic"], PROPOSAL_MAGIC, told["version"], LengthError)
    count = integer(told["candidates"], "proposal candidates", 0, CANDIDATES_MOST, LengthError)
    tags_at = PROPOSAL.size + count * CANDIDATE.size
    tags = integer(told["tags"], "proposal tags", 0, TAGS_MOST, LengthError)
    check_equal("proposal length", len(datagram), tags_at + tags * TAG.size, LengthError)
    first = told["first_write_bytes"]
    if not first < told["size_bytes"]:
        raise LengthError(f"proposal size_bytes is {told['size_bytes']}, expected more than the first write's {first}")
    found = (CANDIDATE.unpack(datagram, PROPOSAL.size + at * CANDIDATE.size) for at in range(count))
    rules = tuple(
        LengthRule(each["offset"], each["shape"] & ~BIG_ENDIAN, each["shape"] >= BIG_ENDIAN, each["constant_bytes"])
        for each in found
    )
    service = Service(program_name(told["comm"]), told["role"], told["port"])
    seen = (TAG.unpack(datagram, tags_at + at * TAG.size) for at in range(tags))
    types = tuple(
        (integer(each["offset"], "tag offset", 0, HEAD_BYTES - 1, LengthError), int(each["tag"])) for each in seen
    )
    return Proposal(service, told["size_bytes"], told["first_write_bytes"], rules, types)
