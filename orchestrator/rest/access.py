"""Before a REST handler: who asks, and whether that one may."""

from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from .bodies import Name, NewName, Text
from .limits import UNKNOWN
from .problems import MEDIA_TYPE
from .tokens import Caller, Role
from .turns import is_in_thread

NamePath = Annotated[Name, Path()]
NewNamePath = Annotated[NewName, Path()]
Once = Annotated[Text | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]

REFUSED = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Refusal"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"content": REFUSED, "description": "The request can't be read"},
    401: {"content": REFUSED, "description": "No known token"},
    403: {"content": REFUSED, "description": "The token's role does not include this"},
    404: {"content": REFUSED, "description": "Named, but not there"},
    405: {"content": REFUSED, "description": "Not with this method; Allow has those"},
    408: {"content": REFUSED, "description": "The body came too slowly"},
    409: {"content": REFUSED, "description": "The present state forbids it"},
    413: {"content": REFUSED, "description": "The body is longer than any that there is need of"},
    412: {"content": REFUSED, "description": "If-Match is of what was there before"},
    429: {"content": REFUSED, "description": "Too many requests; Retry-After has seconds"},
    422: {"content": REFUSED, "description": "A field is wrong; the sentence names it"},
    503: {
        "content": REFUSED,
        "description": "No room now, or the database can't be read or written (a full disk): ask again",
    },
}

BEARER = HTTPBearer(auto_error=False, description="A token of POST /v1/tokens, or the first one, in a file")
"""Tells the OpenAPI document what `needs` reads: a parameter named Authorization is none there (OpenAPI 3.1)."""


def needs(*roles: Role) -> Any:
    """The caller, whose role includes one of `roles`; else 401 or 403."""

    async def caller(request: Request, _: Annotated[Any, Depends(BEARER)]) -> Caller:
        service = request.app.state.service
        found: Caller | None = service.cache.caller(request.headers.get("authorization"))
        if found is None:
            service.rates.unknown(_address_of(request))
            _note(request, _address_of(request), 401)
            raise HTTPException(401, UNKNOWN, {"WWW-Authenticate": "Bearer"})
        if found.role is not Role.HOST:
            service.rates.known(found.name)
        if not any(found.may(role) for role in roles):
            wanted = " or ".join(roles)
            _note(request, found.name, 403)
            raise HTTPException(403, f"role of token {found.name!r} is {found.role}, expected {wanted}")
        if is_in_thread(request.scope["endpoint"]):
            await service.turns.take(request.scope, found.name)
        return found

    return Depends(caller)


def _note(request: Request, actor: str, status: int) -> None:
    request.app.state.service.refusals.came(actor, status, f"{request.method} {request.url.path}")


def _address_of(request: Request) -> str:
    return "unknown" if request.client is None else request.client.host


async def this_host(request: Request, name: NamePath, caller: Annotated[Caller, needs(Role.HOST)]) -> Caller:
    """A host's own token, or an admin's."""
    if caller.role is Role.HOST and caller.name != name:
        _note(request, caller.name, 403)
        raise HTTPException(403, f"token {caller.name!r} acts for host {caller.name!r} alone, not for {name!r}")
    return caller


Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Admin = Annotated[Caller, needs(Role.ADMIN)]
Reader = Annotated[Caller, needs(Role.VIEWER, Role.HOST)]
ThisHost = Annotated[Caller, Depends(this_host)]
