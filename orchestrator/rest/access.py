"""Before a REST handler: who asks, and what a request that is refused is told.

Refusals are `{"detail": "one sentence that names the field"}`.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from qclimb.errors import QclimbError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ..errors import BusyError, ConflictError, MissingError, StoreError, TooManyError
from .bodies import Name
from .limits import UNKNOWN
from .tokens import Caller, Role

log = logging.getLogger(__name__)

NamePath = Annotated[Name, Path()]
Once = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]

REFUSED = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"content": REFUSED, "description": "The request can't be read"},
    401: {"content": REFUSED, "description": "No known token"},
    403: {"content": REFUSED, "description": "The token's role does not include this"},
    404: {"content": REFUSED, "description": "Named, but not there"},
    408: {"content": REFUSED, "description": "The body came too slowly"},
    409: {"content": REFUSED, "description": "The present state forbids it"},
    413: {"content": REFUSED, "description": "The body is longer than any that there is need of"},
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
        found: Caller | None = request.app.state.service.cache.caller(request.headers.get("authorization"))
        if found is None:
            _note(request, _address_of(request), 401)
            raise HTTPException(401, UNKNOWN, {"WWW-Authenticate": "Bearer"})
        if not any(found.may(role) for role in roles):
            wanted = " or ".join(roles)
            _note(request, found.name, 403)
            raise HTTPException(403, f"role of token {found.name!r} is {found.role}, expected {wanted}")
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


def answer_refusals(app: FastAPI) -> None:
    """Has errors of ours, and fields that are wrong, answered by a sentence: on the event loop, for hosts ask there."""

    def sentence(status: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
        async def refuse(request: Request, error: Exception) -> JSONResponse:
            return JSONResponse({"detail": str(error)}, status)

        return refuse

    app.add_exception_handler(MissingError, sentence(404))
    app.add_exception_handler(ConflictError, sentence(409))
    app.add_exception_handler(TooManyError, sentence(413))
    app.add_exception_handler(QclimbError, sentence(422))

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 503, {"Retry-After": str(error.retry_after_s)})

    @app.exception_handler(StoreError)
    async def unstored(request: Request, error: StoreError) -> JSONResponse:
        log.error("request method=%s path=%s event=unstored reason=%r", request.method, request.url.path, str(error))
        return JSONResponse({"detail": str(error)}, 503)

    @app.exception_handler(RequestValidationError)
    async def wrong_field(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [_described(each, request) for each in error.errors()]
        return JSONResponse({"detail": "; ".join(dict.fromkeys(found))}, 422)  # some are asked for twice

    @app.exception_handler(ClientDisconnect)
    async def cut(request: Request, error: ClientDisconnect) -> JSONResponse:
        return JSONResponse({"detail": "body: ended before its length"}, 400)  # nobody is there to read it


def _described(error: Any, request: Request) -> str:
    """One of pydantic's findings as place, value, expectation."""
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown field"
    if error["type"] == "missing":
        return f"{place}: is missing"
    if error["type"] == "json_invalid":
        at = f" at character {error['loc'][1]}" if len(error["loc"]) > 1 else ""
        return f"body is no JSON: {error['ctx']['error']}{at}"
    if error["loc"] == ("body",) and isinstance(error.get("input"), bytes):
        return f"Content-Type is {request.headers.get('content-type')!r}, expected 'application/json'"
    found = repr(error.get("input"))
    return f"{place} is {found if len(found) <= 80 else found[:77] + '...'}: {error['msg']}"
