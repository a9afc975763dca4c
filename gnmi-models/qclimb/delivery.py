"""What a host delivers in one piece, where the orchestrator takes it so: a line of JSON, then the records as they lie.

    {"histogram": ..., "dropped": 0, "unobserved": 0, "policy_generation": 1, "label": null}\n
    struct qclimb_record_header, struct qclimb_record[count]

The line is the REST body without `records`. An orchestrator that takes this says so by `Accept-Post` in its answers
(W3C Linked Data Platform 1.0, section 7.1); all of them take the same as JSON. The version is the header's.
"""

import json
from collections.abc import Mapping
from typing import Any

from .errors import RecordError
from .record_rows import Rows, decode_rows, encode_rows

MEDIA_TYPE = "application/vnd.qclimb.records"
ACCEPT_POST = f"application/json, {MEDIA_TYPE}"


def encode_delivery(told: Mapping[str, Any], rows: Rows) -> bytes:
    """The content of a delivery."""
    return json.dumps(told, separators=(",", ":")).encode() + b"\n" + encode_rows(rows)


def decode_delivery(content: bytes) -> tuple[bytes, Rows]:
    """The line, as it came, and the rows, checked; raises RecordError."""
    end = content.find(b"\n")
    if end < 0:
        raise RecordError("delivery has no line end, expected a line of JSON and then a datagram of records")
    return content[:end], decode_rows(memoryview(content)[end + 1 :])
