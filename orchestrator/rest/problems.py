"""What a request that is refused is told: problem details (RFC 9457), one sentence and the fields that are wrong.

`{"type": "about:blank", "title": "Conflict", "status": 409, "detail": "one sentence", "errors": [...]}`; `errors` is
there where fields are wrong, each as `{"field": "body.load", "detail": "its sentence"}`.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from qclimb.checks import shown
from qclimb.errors import QclimbError
from qclimb.text import printable
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from ..errors import BusyError, ConflictError, MissingError, StoreError, TooManyError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
FIRST_NAME = re.compile(r"([a-z_][a-z0-9_]*)(?:\[\d+\]|\.\w+)*(?=:| is | must | has )")
"""Sentences of ours begin with the field: `dscp[3] is 99, expected ...`."""

ASKED_AS = {"threshold_bytes": "thresholds", "model_generation": "model"}
"""Fields of a policy, by what they are called in the request that asks for one."""

ERRORS_MOST = 8
DETAIL_MOST = 2_000
ERROR_MOST = 400
"""Characters of the whole sentence, and of an error's: a request's own words, which it repeats, may be a megabyte."""

UNREAD = "There was an error parsing the body"
"""FastAPI's sentence."""
Errors = list[dict[str, str]]


def problem(
    status: int, detail: str, errors: Errors | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer of a refusal: a few KB at most, without what can't be sent or printed."""
    told: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _cut(detail, DETAIL_MOST),
    }
    if errors:
        told["errors"] = [{name: _cut(text, ERROR_MOST) for name, text in each.items()} for each in errors]
    return JSONResponse(told, status, None if headers is None else dict(headers), MEDIA_TYPE)


def answer_refusals(app: FastAPI) -> None:
    """Has errors answered as problems: on the event loop, for hosts ask there."""

    def sentence(status: int) -> Callable[[Request, Exception], Awaitable[JSONResponse]]:
        async def refuse(request: Request, error: Exception) -> JSONResponse:
            said = str(error)
            field = _field_of(said, request)
            return problem(status, said, [{"field": field, "detail": said}] if field else None)

        return refuse

    for kind, status in ((MissingError, 404), (ConflictError, 409), (TooManyError, 413), (QclimbError, 422)):
        app.add_exception_handler(kind, sentence(status))

    @app.exception_handler(BusyError)
    async def busy(request: Request, error: BusyError) -> JSONResponse:
        return problem(503, str(error), headers={"Retry-After": str(error.retry_after_s)})

    @app.exception_handler(StoreError)
    async def unstored(request: Request, error: StoreError) -> JSONResponse:
        log.error("request method=%s path=%s event=unstored reason=%r", request.method, request.url.path, str(error))
        return problem(503, str(error))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        headers, said = dict(error.headers or {}), str(error.detail)
        if error.status_code == 405:
            headers["Allow"] = ", ".join(allowed := _methods_at(request))
            said = f"{request.url.path} takes no {request.method}, expected {' or '.join(allowed)}"
        elif error.status_code == 400 and said == UNREAD:
            said = "body: can't be read, expected JSON in UTF-8 that is not nested this deeply"
        elif error.status_code == 404 and said == HTTPStatus.NOT_FOUND.phrase:
            said = f"there is no {request.url.path}, expected a path of /openapi.json"
        return problem(error.status_code, said, headers=headers)

    @app.exception_handler(RequestValidationError)
    async def wrong_field(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[: 2 * ERRORS_MOST]
        found = {
            _described(each, request, error.body): _place(each, error.body)
            for each in _nearest(first, error.body)[:ERRORS_MOST]
        }  # some are asked for twice
        errors = [{"field": place, "detail": said} for said, place in found.items()]
        return problem(422, "; ".join(found), errors)

    @app.exception_handler(ClientDisconnect)
    async def cut(request: Request, error: ClientDisconnect) -> JSONResponse:
        return problem(400, "body: ended before its length")  # nobody is there to read it

    @app.exception_handler(Exception)
    async def broke(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "the orchestrator failed; its log says how")


def _cut(text: str, most: int) -> str:
    found = printable(text[: most + 1])
    return found if len(found) <= most else found[: most - 3] + "..."


def _methods_at(request: Request) -> list[str]:
    """Those that some route takes at this path: Starlette names those of the first alone."""
    found: set[str] = set()
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)


def _field_of(said: str, request: Request) -> str | None:
    """The field of the request that a sentence of ours begins with; None where it speaks of something else."""
    name = FIRST_NAME.match(said)
    if name is None:
        return None
    needs = getattr(request.scope.get("route"), "dependant", None)
    asked = ASKED_AS.get(name[1], name[1])
    for place, params in (("body", "body_params"), ("query", "query_params"), ("path", "path_params")):
        for param in getattr(needs, params, ()):
            fields = getattr(param.field_info.annotation, "model_fields", None)
            if asked in (fields if fields is not None else {param.name}):
                return f"{place}.{asked}{name[0].removeprefix(name[1])}"
    return None


def _place(error: Any, body: Any) -> str:
    """Where, without pydantic's names of the kinds that a field may have (`list[constrained-int]`).

    What the body itself calls so is no such name.
    """
    parts: list[str] = []
    at: Any = {"body": body}
    for part in error["loc"]:
        is_there = isinstance(at, dict) and part in at
        if not is_there and isinstance(part, str) and "[" in part:
            continue
        parts.append(_cut(str(part), ERROR_MOST // 4))
        if is_there or (isinstance(at, list) and isinstance(part, int) and part < len(at)):
            at = at[part]
        else:
            at = None
    return ".".join(parts)


def _nearest(errors: Sequence[Any], body: Any) -> list[Any]:
    """Without findings for a kind that was not meant: where a list has a wrong number, it need not be a word."""
    places = [_place(each, body) for each in errors]
    return [
        each
        for each, place in zip(errors, places, strict=True)
        if each["type"] != "literal_error" or not any(other.startswith(f"{place}.") for other in places)
    ]


def _described(error: Any, request: Request, body: Any) -> str:
    """One of pydantic's findings as place, value, expectation."""
    place = _place(error, body)
    if error["type"] == "extra_forbidden":
        return f"{place}: unknown field"
    if error["type"] == "missing":
        return f"{place}: is missing"
    if error["type"] == "json_invalid":
        at = f" at character {error['loc'][1]}" if len(error["loc"]) > 1 else ""
        return f"body is no JSON: {error['ctx']['error']}{at}"
    if error["loc"] == ("body",) and isinstance(error.get("input"), bytes):
        return f"Content-Type is {request.headers.get('content-type')!r}, expected 'application/json'"
    return f"{place} is {shown(error.get('input'))}: {error['msg']}"
