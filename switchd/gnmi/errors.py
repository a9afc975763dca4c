"""What a client did wrong, as a gRPC status; the message names the path."""

import grpc

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


TEXT_MAX = 600
"""Characters of a status: it travels in a header, for which gRPC has 8 KiB, percent-encoded."""


class RpcError(Exception):
    """Ends an RPC with this status code and text."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        self.code = code
        self.text = sendable(text)
        super().__init__(self.text)


def sendable(text: str) -> str:
    """The text without what UTF-8 has not (lone surrogates), and no longer than a status may be.

    Messages name what a client sent, and that may be anything.
    """
    text = utf8(text)
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 3]}..."


def utf8(text: str) -> str:
    """The text without lone surrogates: a database may hold any bytes, a message may not."""
    return text.encode("utf-8", "backslashreplace").decode()


def invalid(text: str) -> RpcError:
    """The request is malformed, whatever the switch holds."""
    return RpcError(INVALID_ARGUMENT, text)
