"""Before a REST handler: who asks, and what a request that is refused is told.

Refusals are `{"detail": "one sentence that names the field"}`.
"""

import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from qclimb.errors import QclimbError
from starlette.exceptions import HTTPException

from .auth import Caller, Role
from .errors import BusyError, ConflictError, MissingError, StoreError
from .rest_types import Name

log = logging.getLogger(__name__)

NamePath = Annotated[Name, Path()]

REFUSED = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"content": REFUSED, "description": "The request can't be read"},
    401: {"content": REFUSED, "description": "No known token"},
    403: {"content": REFUSED, "description": "The token's role does not include this"},
    404: {"content": REFUSED, "description": "Named, but not there"},
    409: {"content": REFUSED, "description": "The present state forbids it"},
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
        found: Caller | None = request.app.state.service.known.caller(request.headers.get("authorization"))
        if found is None:
            raise HTTPException(401, "Authorization: expected Bearer and a known token", {"WWW-Authenticate": "Bearer"})
        if not any(found.may(role) for role in roles):
            wanted = " or ".join(roles)
            raise HTTPException(403, f"role of token {found.name!r} is {found.role}, expected {wanted}")
        return found

    return Depends(caller)


async def this_host(name: NamePath, caller: Annotated[Caller, needs(Role.HOST)]) -> Caller:
    """A host's own token, or an admin's."""
    if caller.role is Role.HOST and caller.name != name:
        raise HTTPException(403, f"token {caller.name!r} acts for host {caller.name!r} alone, not for {name!r}")
    return caller


Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Admin = Annotated[Caller, needs(Role.ADMIN)]
Reader = Annotated[Caller, needs(Role.VIEWER, Role.HOST)]
ThisHost = Annotated[Caller, Depends(this_host)]


def answer_refusals(app: FastAPI) -> None:
    """Has errors of ours, and fields that are wrong, answered by a sentence."""

    def sentence(status: int) -> Callable[[Request, Exception], JSONResponse]:
        return lambda request, error: JSONResponse({"detail": str(error)}, status)

    app.add_exception_handler(MissingError, sentence(404))
    app.add_exception_handler(ConflictError, sentence(409))
    app.add_exception_handler(QclimbError, sentence(422))

    @app.exception_handler(BusyError)
    def busy(request: Request, error: BusyError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 503, {"Retry-After": str(error.retry_after_s)})

    @app.exception_handler(StoreError)
    def unstored(request: Request, error: StoreError) -> JSONResponse:
        log.error("request method=%s path=%s event=unstored reason=%r", request.method, request.url.path, str(error))
        return JSONResponse({"detail": str(error)}, 503)

    @app.exception_handler(RequestValidationError)
    def wrong_field(request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": "; ".join(_described(each) for each in error.errors())}, 422)


def _described(error: Any) -> str:
    """One of pydantic's findings as place, value, expectation."""
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown field"
    if error["type"] == "missing":
        return f"{place}: is missing"
    found = repr(error.get("input"))
    return f"{place} is {found if len(found) <= 80 else found[:77] + '...'}: {error['msg']}"
