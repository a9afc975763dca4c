"""The requests of hosts, which come every second: deliveries of records, and the policy in force."""

import json
from array import array
from typing import Annotated, Any

from fastapi import FastAPI, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from qclimb import record_rows
from qclimb.delivery import ACCEPT_POST, MEDIA_TYPE, decode_delivery
from qclimb.errors import RecordError
from qclimb.histogram import SizeHistogram
from qclimb.record import FlowRecord
from qclimb.stretch import Stretch
from starlette.exceptions import HTTPException

from ..errors import MissingError
from ..fabric.felt import STRETCH_S
from ..ingest.deliveries import Delivery
from ..ingest.recordings import DEFAULT_LABEL
from . import answers
from .access import NamePath, Once, ThisHost
from .bodies import RecordsBody
from .idempotency import fingerprint
from .limits import DELIVERY_BYTES_MAX, UNTOLD_BYTES_MAX
from .problems import UNREAD
from .service import Service
from .tokens import Role

Asked = Annotated[str | None, Header(alias="If-None-Match")]

LARGE_BYTES = 65_536
"""Longer JSON is read in a thread: it takes some 50 us a record."""
LARGE_PACKED_BYTES = 1 << 20
"""The same of records as they lie; a full delivery of 4,096 is shorter."""

RECORDS_CONTENT = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": RecordsBody.model_json_schema()},
            MEDIA_TYPE: {"schema": {"type": "string", "format": "binary", "description": "see qclimb.delivery"}},
        },
    }
}


TAKEN = answers.of(answers.Delivery, 202)
POLICY: dict[int | str, dict[str, Any]] = {
    200: {"model": answers.Policy},
    304: {"description": "Still the asked one"},
}


def read_body(content: bytes) -> RecordsBody:
    """A delivery's JSON; raises RequestValidationError, or HTTPException for what is no text or too deep."""
    try:
        found = json.loads(content)  # names the field of a lone surrogate, to which pydantic's parser says "no JSON"
    except json.JSONDecodeError as error:
        raise RequestValidationError(
            [{"type": "json_invalid", "loc": ("body", error.pos), "ctx": {"error": error.msg}}]
        ) from None
    except (ValueError, RecursionError):
        raise HTTPException(400, UNREAD) from None
    try:
        return RecordsBody.model_validate(found)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(found) from None


def add(app: FastAPI, service: Service) -> None:
    """The routes. Their handlers run on the event loop, what takes long in threads."""

    @app.post("/v1/hosts/{name}/records", tags=["hosts"], openapi_extra=RECORDS_CONTENT, **TAKEN)
    async def post_records(name: NamePath, request: Request, caller: ThisHost, key: Once = None) -> JSONResponse:
        """Finished flows since the last delivery; without any it is a heartbeat.

        The answer says how many records the next delivery may hold; their sizes are counted in its histogram anyway.
        """
        known(name)
        with service.intake.room_for(name, _length(request)):
            content = await request.body()
            packed = request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE
            if len(content) < (LARGE_PACKED_BYTES if packed else LARGE_BYTES):
                taken = delivery(name, content, packed, key)
            else:
                taken = await run_in_threadpool(delivery, name, content, packed, key)
            if caller.role is Role.HOST:
                service.intake.check_records(name, len(taken.rows))
                if taken.label != (service.cache.label or DEFAULT_LABEL):
                    raise HTTPException(403, f"label is {taken.label!r}, expected null: PUT /v1/recording gives labels")
            elif taken.label != (service.cache.label or DEFAULT_LABEL):
                await run_in_threadpool(service.recordings.check_new, taken.label)
            answer = await service.intake.take(taken)
            policy = service.cache.policy
            now = {"policy_etag": None if policy is None else policy.etag, "stretch_s": STRETCH_S}
            return JSONResponse(answer | now, 202, {"Accept-Post": ACCEPT_POST})

    def known(name: str) -> None:
        if not service.cache.has_host(name):
            raise MissingError(f"hosts: no {name!r} is registered, PUT /v1/hosts/{name} first")

    def delivery(name: str, content: bytes, packed: bool, key: str | None) -> Delivery:
        line, rows = decode_delivery(content) if packed else (content, None)
        body = read_body(line)
        if rows is None:
            rows = record_rows.from_records(FlowRecord.from_json(record) for record in body.records)
        elif body.records:
            raise RecordError("records: stand in the line of JSON, expected after it")
        flows = record_rows.kept(rows)
        if body.histogram is None:
            sizes = SizeHistogram.of(rows["size_bytes"].tolist())
        else:
            sizes = SizeHistogram.from_json(body.histogram)
        told = (sizes.total_bytes, body.dropped, body.unobserved, body.label)
        counts = array("q", sizes.counts).tobytes() + array("Q", sizes.counts.values()).tobytes()
        return Delivery(
            host=name,
            label=body.label or service.cache.label or DEFAULT_LABEL,
            rows=flows,
            sizes=sizes,
            dropped=body.dropped,
            unobserved=body.unobserved,
            generation=body.policy_generation,
            key=key,
            stretch=None if body.stretch is None else Stretch.from_json(body.stretch),
            asked="" if key is None else fingerprint(told, counts, flows.tobytes()),
        )

    @app.get("/v1/hosts/{name}/policy", tags=["hosts"], responses=POLICY)
    async def get_policy(name: NamePath, caller: ThisHost, asked: Asked = None) -> Response:
        """The policy in force; its ETag is the generation. 404 before the first rollout."""
        known(name)
        policy = service.cache.policy
        if policy is None:
            raise MissingError("policy: none is in force yet, roll a revision out first")
        headers = {"ETag": policy.etag}
        if asked is not None and policy.etag in (part.strip().removeprefix("W/") for part in asked.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(policy.content, headers=headers, media_type="application/json")


def _length(request: Request) -> int:
    """As told, or, of what comes in chunks, the most that it may have."""
    return min(int(request.headers.get("content-length", UNTOLD_BYTES_MAX)), DELIVERY_BYTES_MAX)
