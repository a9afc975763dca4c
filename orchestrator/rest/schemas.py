"""Records and histograms as the OpenAPI document has them, derived from the contract's own types.

Bodies stay plain JSON until the contract reads them, thousands at once; the document tells tools what they are.
"""

from typing import Any

from qclimb.histogram import GAMMA, LAST_BUCKET
from qclimb.layout import Field, fields_of
from qclimb.policy import Mode
from qclimb.record import FlowRecord
from qclimb.stretch import CONNECTIONS_MOST, LOG_MOST

Json = dict[str, Any]

REQUIRED = ("start_ns", "last_write_ns", "size_bytes")
ADDRESSES = ("local_addr", "peer_addr")
UINT64 = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}


def _property(name: str, field: Field) -> Json:
    kind = field.kind
    if name in ADDRESSES:
        found: Json = {"type": "string", "examples": ["198.19.1.1"]}
    elif name == "mode":
        found = {"enum": [each.value for each in Mode]}
    elif name == "comm":
        found = {"type": "string", "maxLength": 15}
    elif kind.count:
        number = {"type": "integer", "minimum": 0, "maximum": kind.highest}
        found = {"type": "array", "items": number, "minItems": kind.count, "maxItems": kind.count}
    else:
        found = {"type": "integer", "minimum": int(name == "size_bytes"), "maximum": kind.highest}
    return found | {"description": field.about} if field.about else found


RECORD: Json = {
    "type": "object",
    "title": "FlowRecord",
    "description": "One finished flow; times are the host's CLOCK_MONOTONIC in ns, and ascend.",
    "properties": {name: _property(name, field) for name, field in fields_of(FlowRecord).items()},
    "required": list(REQUIRED),
    "additionalProperties": False,
}

HISTOGRAM: Json = {
    "type": "object",
    "title": "SizeHistogram",
    "description": "Flows by size: bucket i holds sizes in (gamma^(i-1), gamma^i] bytes; at least a byte a flow.",
    "properties": {
        "gamma": {"const": GAMMA},
        "counts": {
            "type": "object",
            "description": f"by bucket, 0 to {LAST_BUCKET}",
            "patternProperties": {"^(0|[1-9][0-9]{0,3})$": {**UINT64, "minimum": 1}},
            "additionalProperties": False,
        },
        "total_bytes": {"type": "integer", "minimum": 0},
    },
    "required": ["gamma", "counts", "total_bytes"],
    "additionalProperties": False,
}

STRETCH: Json = {
    "type": "object",
    "title": "Stretch",
    "description": "How much longer packets of small flows travel than they could (qclimb.stretch).",
    "properties": {
        "connections": {"type": "integer", "minimum": 1, "maximum": CONNECTIONS_MOST},
        "log_mean": {
            "type": "number",
            "minimum": 0,
            "maximum": LOG_MOST,
            "description": "mean of log(round-trip time / least round-trip time)",
        },
    },
    "required": ["connections", "log_mean"],
    "additionalProperties": False,
}
