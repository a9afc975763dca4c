"""Which extensions and newer fields an RPC takes; what it does not know is refused by name, not ignored in silence."""

from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from qclimb.gnmi_ext import ExtensionError, Extensions, UnknownExtension, read

from switchd.gnmi.errors import UNIMPLEMENTED, RpcError, invalid

__all__ = ["Extensions", "check_fields", "extensions_of"]


def extensions_of(request: Any, *known: str) -> Extensions:
    """The extensions of a request. Raises RpcError for one that this RPC does not know, or that can't be read."""
    try:
        found = read(each.SerializeToString() for each in request.extension)
    except UnknownExtension as error:
        raise RpcError(UNIMPLEMENTED, str(error)) from error
    except ExtensionError as error:
        raise invalid(str(error)) from error
    for name in found.named:
        if name not in known:
            kind = request.DESCRIPTOR.name
            raise invalid(f"extension {name} does not belong to a {kind}, expected {' or '.join(known) or 'none'}")
    return found


def check_fields(request: Any, *known: int) -> list[int]:
    """The numbers of the fields that our stubs don't know and we do. Raises RpcError for others."""
    numbers = [field.field_number for field in UnknownFieldSet(request)]
    for number in numbers:
        if number not in known:
            raise RpcError(UNIMPLEMENTED, f"field {number} of {request.DESCRIPTOR.name} is not supported")
    return numbers
