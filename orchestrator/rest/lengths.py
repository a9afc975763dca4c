"""Announced lengths by REST: what hosts found of their services, and what an operator says of them."""

import logging
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, StrictBool, StrictInt
from qclimb.lengths import CONSTANT_MOST_BYTES, HEAD_BYTES, Announced, LengthRule, Score, Service, Use, by_service

from ..errors import MissingError
from . import answers
from .access import NamePath, Operator, ThisHost, Viewer
from .bodies import Body, Text, up_to
from .service import Service as Open

log = logging.getLogger(__name__)

Json = dict[str, Any]
Place = Annotated[StrictInt, Field(ge=0, lt=HEAD_BYTES)]
ServicePath = Annotated[
    Text, Path(description="PROGRAM:accepts:PORT or PROGRAM:connects:PORT; port 0: all of the kernel's choice")
]


class ToldBody(Body):
    """What a host saw since it last told, each as qclimb.lengths.Announced in JSON."""

    lengths: Annotated[list[Json], up_to(1_024)]


class RuleBody(Body):
    """Where a message's length stands: its size is the number at `offset` + constant_bytes."""

    offset: Place
    width: Literal[2, 3, 4, 8]
    is_big_endian: StrictBool = True
    constant_bytes: Annotated[StrictInt, Field(ge=-CONSTANT_MOST_BYTES, le=CONSTANT_MOST_BYTES)] = 0
    tag_offset: Place | None = Field(None, description="with `tag`: only of messages that have this byte there")
    tag: Annotated[StrictInt, Field(ge=0, le=255)] | None = None


class PinBody(Body):
    """An operator's word on a service; hosts follow it whatever they find."""

    use: Literal["in-force", "forbidden"] = Field(
        "in-force", description="forbidden: no byte of the service's messages is looked at"
    )
    rule: RuleBody | None = Field(None, description="null: HTTP/1.x alone, which needs none")
    is_exact: StrictBool = Field(False, description="it is an upper bound, too")


RULE = answers.derived("LengthRuleAnswer", LengthRule)
KNOWN = answers.shape(
    "LengthsOfService",
    "How the messages of a service tell their size, and how often rightly.",
    program=str,
    role=answers.said(int, "1: the side that accepts, 0: that connects"),
    port=answers.said(int, "of the listening side; 0: all of the kernel's choice"),
    rule=answers.said(RULE | None, "null: HTTP/1.x, which needs none"),
    use=Use,
    score=answers.derived("LengthScore", Score),
    is_exact=answers.said(bool, "an upper bound, too"),
    pinned=answers.said(bool, "by an operator"),
)
GIVEN = answers.shape("LengthsAnswer", "By service.", lengths=list[KNOWN])  # type: ignore[valid-type]


def add(app: FastAPI, service: Open) -> None:
    """Adds these routes."""
    lengths = service.lengths

    @app.post("/v1/hosts/{name}/lengths", tags=["lengths"], **answers.of(GIVEN))
    async def post_lengths(name: NamePath, body: ToldBody, request: Request, caller: ThisHost) -> Json:
        """Takes what a host saw of its services since it last told, and answers with what hosts are to go by."""
        if not service.cache.has_host(name):
            raise MissingError(f"hosts: no {name!r} is registered, PUT /v1/hosts/{name} first")
        told = by_service(body.lengths)
        await service.turns.take(request.scope, caller.name)
        given = await run_in_threadpool(lengths.heard, name, told.values())
        return {"lengths": [each.to_json() for each in given]}

    @app.get("/v1/lengths", tags=["lengths"], **answers.of(GIVEN))
    def get_lengths(caller: Viewer) -> Json:
        """What is known of each service."""
        known = lengths.fabric.known
        return {"lengths": [known[each].to_json() for each in sorted(known)]}

    @app.put("/v1/lengths/{of:path}", tags=["lengths"], **answers.of(KNOWN))
    def put_lengths(of: ServicePath, body: PinBody, caller: Operator) -> Json:
        """Pins, writes or forbids a service's rule."""
        rule = None if body.rule is None else LengthRule(**body.rule.model_dump())
        each = Announced(Service.named(of), rule, Use(body.use), is_exact=body.is_exact, pinned=True)
        known = lengths.pin(each, caller.name)
        log.info("lengths service=%s use=%s rule=%r event=pinned by=%s", of, body.use, str(rule), caller.name)
        return known.to_json()

    @app.delete("/v1/lengths/{of:path}", status_code=204, tags=["lengths"])
    def delete_lengths(of: ServicePath, caller: Operator) -> None:
        """Takes an operator's word back, and forgets what was found: hosts' next words count."""
        lengths.unpin(Service.named(of), caller.name)
