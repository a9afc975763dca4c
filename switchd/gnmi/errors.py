"""What a client did wrong, as a gRPC status; the message names the path, and so do details that a program can read."""

import re

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from qclimb.text import printable

INVALID_ARGUMENT = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
UNIMPLEMENTED = grpc.StatusCode.UNIMPLEMENTED
FAILED_PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
PERMISSION_DENIED = grpc.StatusCode.PERMISSION_DENIED
RESOURCE_EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
DEADLINE_EXCEEDED = grpc.StatusCode.DEADLINE_EXCEEDED
CANCELLED = grpc.StatusCode.CANCELLED
ABORTED = grpc.StatusCode.ABORTED
INTERNAL = grpc.StatusCode.INTERNAL

TEXT_MAX_BYTES = 1000
"""Of a status: it travels in headers, percent-encoded and once more in base64, for which gRPC has 8 KiB."""
PATH_MAX = 300
DETAILS_KEY = "grpc-status-details-bin"
DOMAIN = "qclimb"
_PATH = re.compile(r"/(?:[^\s\[:]|\[[^\]]*\]|:(?=\S))*")


class RpcError(Exception):
    """Ends an RPC with this status code and text. A text about a path begins with it."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        self.text = sendable(text)
        super().__init__(self.text)


def sendable(text: str) -> str:
    """The text without what can't be sent or printed, and no longer than a status may be.

    Messages name what a client sent or a database holds, and that may be anything.
    """
    encoded = printable(text[: TEXT_MAX_BYTES + 1]).encode()
    if len(encoded) <= TEXT_MAX_BYTES:
        return encoded.decode()
    return f"{encoded[: TEXT_MAX_BYTES - 3].decode(errors='ignore')}..."


def invalid(text: str) -> RpcError:
    """The request is malformed, whatever the switch holds."""
    return RpcError(INVALID_ARGUMENT, text)


def details(code: grpc.StatusCode, text: str) -> tuple[str, bytes]:
    """The trailer of a google.rpc.Status: what kind of error (ErrorInfo), and of which path, where it is about one."""
    info, packed = ErrorInfo(reason=code.name, domain=DOMAIN), []
    if found := _PATH.match(text):
        info.metadata["path"] = found[0][:PATH_MAX]
        if code in (INVALID_ARGUMENT, NOT_FOUND):
            field = BadRequest.FieldViolation(field=found[0][:PATH_MAX], reason=code.name)
            packed.append(BadRequest(field_violations=[field]))
    status = Status(code=code.value[0], message=text)
    for one in (info, *packed):
        status.details.append(_any(one))
    return DETAILS_KEY, status.SerializeToString()


def _any(message: ErrorInfo | BadRequest) -> Any:
    packed = Any()
    packed.Pack(message)
    return packed
