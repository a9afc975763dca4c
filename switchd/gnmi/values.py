"""TypedValue in and out.

In: JSON, JSON_IETF, and scalars at leaves; everything else is refused before anything is stored: bytes that no schema
says how to read are INVALID_ARGUMENT, text for a command line is UNIMPLEMENTED. Out: JSON only.
"""

import json
from struct import pack
from typing import Any

from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.checks import json_value
from qclimb.errors import QclimbError

from switchd.gnmi.errors import INVALID_ARGUMENT, UNIMPLEMENTED, RpcError, invalid
from switchd.gnmi.schema import Node

SCALARS = ("string_val", "int_val", "uint_val", "bool_val", "float_val", "double_val")
JSON_FIELDS = ("json_ietf_val", "json_val")
ENCODINGS = (pb.JSON_IETF, pb.JSON)


def decoded(value: pb.TypedValue, node: Node, path: str) -> Any:
    """The JSON value that a TypedValue means for this schema node. Raises RpcError."""
    kind = value.WhichOneof("value")
    if kind in JSON_FIELDS:
        return parsed(getattr(value, kind), path)
    if kind in SCALARS and node.is_leaf:
        scalar = _shortest(value.float_val) if kind == "float_val" else getattr(value, kind)
        return [scalar] if node.kind == "leaf-list" else scalar
    if kind == "leaflist_val" and node.kind == "leaf-list":
        return [decoded(one, _single(node), path) for one in value.leaflist_val.element]
    if kind is None:
        raise invalid(f"{path}: an update without a value")
    if kind in SCALARS or kind == "leaflist_val":
        raise invalid(f"{path}: {kind} does not fit a {node.kind}, expected json_ietf_val or json_val")
    code = UNIMPLEMENTED if kind == "ascii_val" else INVALID_ARGUMENT
    expected = "expected json_ietf_val, json_val, or a scalar at a leaf"
    raise RpcError(code, f"{path}: encoding {kind} is not supported, {expected}")


def _single(node: Node) -> Node:
    return Node(node.name, "leaf", node.config, base=node.base)


def parsed(text: bytes, path: str) -> Any:
    """JSON. Raises RpcError INVALID_ARGUMENT."""
    try:
        return json_value(text, path, QclimbError)
    except QclimbError as error:
        raise invalid(str(error)) from error


def _shortest(single: float) -> float:
    """The number of the fewest digits that is this one in single precision: what its sender had, 0.1 for 0.1."""
    texts = (f"{single:.{digits}g}" for digits in range(6, 10))
    return next((found for text in texts if pack("f", found := float(text)) == pack("f", single)), single)


def check_encoding(encoding: int) -> None:
    """Refuse an encoding that Capabilities does not advertise, by name."""
    if encoding not in ENCODINGS:
        try:
            name = pb.Encoding.Name(encoding)
        except ValueError:
            name = str(encoding)
        raise RpcError(UNIMPLEMENTED, f"encoding {name} is not supported, expected JSON_IETF or JSON")


def encoded(obj: Any, encoding: int) -> pb.TypedValue:
    """A JSON value as JSON_IETF or JSON."""
    text = json.dumps(obj, separators=(",", ":")).encode()
    return pb.TypedValue(json_ietf_val=text) if encoding == pb.JSON_IETF else pb.TypedValue(json_val=text)
