"""The REST door: parses, checks who asks, calls; what is decided, is decided elsewhere.

Handlers of hosts' requests, which come every second, run on the event loop; the others in FastAPI's threads.
"""

import logging
from array import array
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError
from qclimb import record_rows
from qclimb.delivery import ACCEPT_POST, MEDIA_TYPE, decode_delivery
from qclimb.errors import RecordError
from qclimb.histogram import SizeHistogram
from qclimb.record import FlowRecord

from . import auth, drift
from .errors import MissingError
from .flows import DEFAULT_LABEL, Recordings, pack_rows
from .intake import Delivery, Intake
from .known import Known
from .metrics import Measured, Metrics
from .once import Keep, fingerprint, once
from .rest_access import (
    REFUSALS,
    UNTOLD_BYTES_MAX,
    Admin,
    Bounded,
    NamePath,
    Operator,
    Reader,
    ThisHost,
    Viewer,
    answer_refusals,
)
from .rest_answers import (
    NOT_CHANGED,
    DeliveryAnswer,
    DriftAnswer,
    HostAnswer,
    MadeModelAnswer,
    MadeRevisionAnswer,
    ModelAnswer,
    NoteAnswer,
    PolicyAnswer,
    RecordingAnswer,
    Refusal,
    RevisionAnswer,
    RevokedAnswer,
    RolloutAnswer,
    StartedAnswer,
    StateAnswer,
    StatisticsAnswer,
    SwitchAnswer,
    TokenAnswer,
    answers,
)
from .rest_revision import describe
from .rest_types import (
    SQLITE_MAX,
    Body,
    HostBody,
    Label,
    ModelBody,
    RecordingBody,
    RecordsBody,
    RevisionBody,
    RolloutBody,
    SwitchBody,
    TokenBody,
)
from .runner import Runner
from .share import RECORDS_PER_S
from .store import Store
from .trainer import Trainer
from .unchanged import Unchanged
from .watch import Watch

log = logging.getLogger(__name__)

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]
Asked = Annotated[str | None, Header(alias="If-None-Match")]
Once = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]

LARGE_BYTES = 65_536
"""Longer JSON is read in a thread: it takes some 50 us a record."""
LARGE_PACKED_BYTES = 1 << 20
"""The same of records as they lie; a full delivery of 4,096 is shorter."""

RECORDS_CONTENT: Json = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": RecordsBody.model_json_schema()},
            MEDIA_TYPE: {"schema": {"type": "string", "format": "binary", "description": "see qclimb.delivery"}},
        },
    }
}


class Application(FastAPI):
    """Its document has Refusal: by `model` a refusal would have the content type of the route's other answers."""

    def openapi(self) -> Json:
        """The document."""
        found = super().openapi()
        found["components"]["schemas"]["Refusal"] = Refusal.model_json_schema()
        return found


class BinaryFile(Response):
    """A file as it is."""

    media_type = "application/octet-stream"


@dataclass
class Service:
    """What the handlers work with."""

    store: Store
    recordings: Recordings
    runner: Runner
    trainer: Trainer
    metrics: Metrics
    watch: Watch
    records_per_s: int = RECORDS_PER_S
    known: Known = field(init=False)
    intake: Intake = field(init=False)

    def __post_init__(self) -> None:
        self.known = Known(self.store)
        self.intake = Intake(self.store, self.recordings, self.metrics, self.runner.host_reported, self.records_per_s)


def make_app(service: Service) -> FastAPI:
    """The application over an open service; closing the app closes the service."""

    @asynccontextmanager
    async def life(_: FastAPI) -> Any:
        service.runner.recover()
        service.watch.start()
        yield
        service.watch.close()
        service.runner.close()
        service.trainer.close()

    app = Application(
        title="qclimb orchestrator",
        version="1",
        description="Flow sizes in; thresholds, forests, switch intents and host policies out.",
        responses=REFUSALS,
        lifespan=life,
    )
    app.state.service = service
    answer_refusals(app)
    for add in (_devices, _hosts, _recordings, _models, _revisions, _rollouts, _rest):
        add(app, service)

    app.add_middleware(Bounded)
    app.add_middleware(Measured, metrics=service.metrics)
    app.add_middleware(Unchanged, known=service.known, metrics=service.metrics)
    return app


def read_body(content: bytes) -> RecordsBody:
    """A delivery's JSON; raises RequestValidationError."""
    try:
        return RecordsBody.model_validate_json(content)
    except ValidationError as error:
        found = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
        raise RequestValidationError(found) from None


def _asked(request: Request, body: Body) -> str:
    """What a request asks, as an Idempotency-Key is held to it."""
    return fingerprint(request.method, request.url.path, body.model_dump(mode="json"))


def _devices(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.put("/v1/switches/{name}", tags=["devices"], **answers(SwitchAnswer))
    def put_switch(name: NamePath, body: SwitchBody, caller: Admin) -> Json:
        """Registers a switch, or says where it is now."""
        with store.writing():
            store.put_switch(name, body.address, body.role, body.server_name)
            store.note(caller.name, "put-switch", f"{name} {body.address}")
        log.info("switch name=%s address=%s event=registered by=%s", name, body.address, caller.name)
        return store.switches()[name]

    @app.get("/v1/switches", tags=["devices"], **answers(list[SwitchAnswer]))
    def get_switches(caller: Viewer) -> list[Json]:
        """All switches."""
        return list(store.switches().values())

    @app.delete("/v1/switches/{name}", status_code=204, tags=["devices"])
    def delete_switch(name: NamePath, caller: Admin) -> None:
        """Forgets a switch; what it is configured to do stays."""
        with service.runner.idle(), store.writing():
            store.remove_device("switches", name)
            store.note(caller.name, "delete-switch", name)

    @app.put("/v1/hosts/{name}", tags=["devices"], **answers(HostAnswer))
    def put_host(name: NamePath, caller: Admin, body: HostBody | None = None) -> Json:
        """Registers a host."""
        with store.writing():
            if store.put_host(name):
                store.note(caller.name, "put-host", name)
        return store.hosts()[name]

    @app.get("/v1/hosts", tags=["devices"], **answers(list[HostAnswer]))
    def get_hosts(caller: Viewer) -> list[Json]:
        """All hosts, with the policy generation that each last reported."""
        return list(store.hosts().values())

    @app.delete("/v1/hosts/{name}", status_code=204, tags=["devices"])
    def delete_host(name: NamePath, caller: Admin) -> None:
        """Forgets a host."""
        with service.runner.idle(), store.writing():
            store.remove_device("hosts", name)
            store.note(caller.name, "delete-host", name)

    @app.post("/v1/tokens", tags=["devices"], **answers(TokenAnswer, 201))
    def post_token(body: TokenBody, caller: Admin) -> Json:
        """Makes a token. It is shown this once."""
        with store.writing():
            token = auth.issue(store, body.name, body.role)
            store.note(caller.name, "make-token", f"{body.role} {body.name}")
        return {"token": token, "role": body.role, "name": body.name}

    @app.delete("/v1/tokens/{name}", tags=["devices"], **answers(RevokedAnswer))
    def delete_tokens(name: NamePath, caller: Admin) -> Json:
        """Revokes all tokens of a name."""
        with store.writing():
            revoked = store.revoke_tokens(name)
            store.note(caller.name, "revoke-tokens", name)
        return {"revoked": revoked}


def _hosts(app: FastAPI, service: Service) -> None:
    @app.post("/v1/hosts/{name}/records", tags=["hosts"], openapi_extra=RECORDS_CONTENT, **answers(DeliveryAnswer, 202))
    async def post_records(name: NamePath, request: Request, caller: ThisHost, key: Once = None) -> JSONResponse:
        """Finished flows since the last delivery; without any it is a heartbeat.

        The answer says how many records the next delivery may hold; their sizes are counted in its histogram anyway.
        """
        known(name)
        with service.intake.room_for(_length(request)):
            content = await request.body()
            packed = request.headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE
            if len(content) < (LARGE_PACKED_BYTES if packed else LARGE_BYTES):
                taken = delivery(name, content, packed, key)
            else:
                taken = await run_in_threadpool(delivery, name, content, packed, key)
            return JSONResponse(await service.intake.take(taken), 202, {"Accept-Post": ACCEPT_POST})

    def known(name: str) -> None:
        if not service.known.has_host(name):
            raise MissingError(f"hosts: no {name!r} is registered, PUT /v1/hosts/{name} first")

    def delivery(name: str, content: bytes, packed: bool, key: str | None) -> Delivery:
        line, rows = decode_delivery(content) if packed else (content, None)
        body = read_body(line)
        if rows is None:
            rows = record_rows.from_records(FlowRecord.from_json(record) for record in body.records)
        elif body.records:
            raise RecordError("records: stand in the line of JSON, expected after it")
        flows = pack_rows(rows)
        if body.histogram is None:
            sizes = SizeHistogram.of(rows["size_bytes"].tolist())
        else:
            sizes = SizeHistogram.from_json(body.histogram)
        told = (sizes.total_bytes, body.dropped, body.unobserved, body.label)
        counts = array("q", sizes.counts).tobytes() + array("Q", sizes.counts.values()).tobytes()
        return Delivery(
            host=name,
            label=body.label or service.known.label or DEFAULT_LABEL,
            rows=flows,
            sizes=sizes,
            dropped=body.dropped,
            unobserved=body.unobserved,
            generation=body.policy_generation,
            key=key,
            asked="" if key is None else fingerprint(told, counts, flows.tobytes()),
        )

    @app.get("/v1/hosts/{name}/policy", tags=["hosts"], responses={200: {"model": PolicyAnswer}, **NOT_CHANGED})
    async def get_policy(name: NamePath, caller: ThisHost, asked: Asked = None) -> Response:
        """The policy in force; its ETag is the generation. 404 before the first rollout."""
        known(name)
        policy = service.known.policy
        if policy is None:
            raise MissingError("policy: none is in force yet, roll a revision out first")
        headers = {"ETag": policy.etag}
        if asked is not None and policy.etag in (part.strip().removeprefix("W/") for part in asked.split(",")):
            return Response(status_code=304, headers=headers)
        return Response(policy.content, headers=headers, media_type="application/json")


def _length(request: Request) -> int:
    """As told, or, of what comes in chunks, the most that it may have."""
    return int(request.headers.get("content-length", UNTOLD_BYTES_MAX))


def _recordings(app: FastAPI, service: Service) -> None:
    @app.get("/v1/flows/statistics", tags=["flows"], **answers(StatisticsAnswer))
    def get_statistics(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Json:
        """Sizes of the flows of one recording, or of all."""
        return service.recordings.statistics(label)

    @app.get("/v1/flows/drift", tags=["flows"], **answers(DriftAnswer))
    def get_drift(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Json:
        """Coverage and fallbacks of the bounds in force, by window; why they no longer hold, or null."""
        windows = drift.reported(service.recordings.rows(label)[0])
        return {"label": label, "windows": [each.to_json() for each in windows], "drifted": drift.drifted(windows)}

    @app.get("/v1/recording", tags=["flows"], **answers(RecordingAnswer))
    def get_recording(caller: Viewer) -> Json:
        """The label under which records are filed now."""
        return {"label": service.store.setting("recording"), "labels": service.recordings.labels()}

    @app.put("/v1/recording", tags=["flows"], **answers(RecordingAnswer))
    def put_recording(body: RecordingBody, caller: Operator) -> Json:
        """Begins, or with null ends, a recording."""
        with service.store.writing():
            service.store.set_setting("recording", body.label)
            service.store.note(caller.name, "recording", body.label or "-")
        log.info("recording label=%r by=%s", body.label, caller.name)
        return {"label": body.label, "labels": service.recordings.labels()}


def _models(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/models", tags=["models"], **answers(MadeModelAnswer, 201))
    def post_model(body: ModelBody, request: Request, caller: Operator, key: Once = None) -> Json:
        """Trains a forest on a recording, checks it, and answers with how well it bounds the flows it was not shown."""

        def make(keep: Keep) -> Json:
            rows, hosts = service.recordings.rows(body.label)
            generation = store.reserve_model()
            wanted = body.model_dump(exclude={"label"})
            policy = store.setting("policy")
            if policy is not None and policy["model_generation"]:
                wanted["rival"] = bytes(store.model(policy["model_generation"])["forest"])
            made = service.trainer.train(rows, hosts, generation, wanted)
            with store.writing():
                store.add_model(generation, body.label, made.report, made.onnx, made.forest)
                store.note(caller.name, "train-model", f"{generation} {body.label}")
                answer = keep({"generation": generation, "label": body.label, "report": made.report})
            log.info("model generation=%d label=%r coverage=%s", generation, body.label, made.report["coverage"])
            return answer

        return once(store, caller.name, key, _asked(request, body), make)

    @app.get("/v1/models", tags=["models"], **answers(list[ModelAnswer]))
    def get_models(caller: Viewer) -> list[Json]:
        """All models with their reports."""
        return store.models()

    @app.get("/v1/models/{generation}", tags=["models"], **answers(ModelAnswer))
    def get_model(generation: Id, caller: Viewer) -> Json:
        """A model's report."""
        row = store.model(generation)
        return {name: row[name] for name in ("generation", "label", "created_at", "report")}

    def file(content: bytes, generation: int) -> Response:
        headers = {"ETag": f'"{generation}"'}
        return BinaryFile(content, headers=headers)

    @app.get("/v1/models/{generation}/forest", tags=["models"], response_class=BinaryFile)
    def get_forest(generation: Id, caller: Reader) -> Response:
        """The model as hosts read it."""
        return file(store.model(generation)["forest"], generation)

    @app.get("/v1/models/{generation}/onnx", tags=["models"], response_class=BinaryFile)
    def get_onnx(generation: Id, caller: Reader) -> Response:
        """The model as ONNX."""
        return file(store.model(generation)["onnx"], generation)


def _revisions(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/revisions", tags=["rollouts"], **answers(MadeRevisionAnswer, 201))
    def post_revision(body: RevisionBody, request: Request, caller: Operator, key: Once = None) -> Json:
        """Makes a revision: thresholds are computed, everything is checked, nothing is changed in the fabric."""

        def make(keep: Keep) -> Json:
            document = describe(body, service.recordings, store)
            with store.writing():
                number = store.add_revision(caller.name, document)
                store.note(caller.name, "make-revision", str(number))
                return keep({"id": number, **document})

        return once(store, caller.name, key, _asked(request, body), make)

    @app.get("/v1/revisions", tags=["rollouts"], **answers(list[RevisionAnswer]))
    def get_revisions(caller: Viewer) -> list[Json]:
        """All revisions."""
        return [_flat(row) for row in store.revisions()]

    @app.get("/v1/revisions/{number}", tags=["rollouts"], **answers(RevisionAnswer))
    def get_revision(number: Id, caller: Viewer) -> Json:
        """One revision."""
        return _flat(store.revision(number))


def _flat(row: Json) -> Json:
    return {"id": row["id"], "created_at": row["created_at"], "created_by": row["created_by"], **row["document"]}


def _rollouts(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/rollouts", tags=["rollouts"], **answers(StartedAnswer, 202))
    def post_rollout(body: RolloutBody, request: Request, caller: Operator, key: Once = None) -> Json:
        """Begins to bring a revision into force: switches first, then hosts. One at a time (409)."""

        def make(keep: Keep) -> Json:
            def begun(number: int) -> Json:
                return {"id": number, "generation": number, "revision": body.revision}

            def also(number: int) -> None:
                store.note(caller.name, "start-rollout", f"{number} revision {body.revision}")
                keep(begun(number))

            return begun(service.runner.start(body.revision, caller.name, also=also))

        return once(store, caller.name, key, _asked(request, body), make)

    @app.get("/v1/rollouts", tags=["rollouts"], **answers(list[RolloutAnswer]))
    def get_rollouts(caller: Viewer) -> list[Json]:
        """All rollouts."""
        return [_shown(row) for row in store.rollouts()]

    @app.get("/v1/rollouts/{number}", tags=["rollouts"], **answers(RolloutAnswer))
    def get_rollout(number: Id, caller: Viewer) -> Json:
        """How far a rollout has got, by device."""
        return _shown(store.rollout(number))


def _shown(row: Json) -> Json:
    document = row["document"]
    switches = {
        name: {key: value for key, value in step.items() if key != "previous"}
        for name, step in document["switches"].items()
    }
    return {
        "id": row["id"],
        "generation": row["id"],
        "revision": row["revision"],
        "created_at": row["created_at"],
        "created_by": row["created_by"],
        "phase": row["phase"],
        "error": document["error"],
        "switches": switches,
        "hosts": document["hosts"],
    }


def _rest(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/v1/state", tags=["state"], **answers(StateAnswer))
    def get_state(caller: Viewer) -> Json:
        """The whole fabric at a glance."""
        policy, last = store.setting("policy"), store.last_rollout()
        return {
            "policy": policy,
            "policy_generation": 0 if policy is None else policy["generation"],
            "recording": store.setting("recording"),
            "running_rollout": service.runner.running,
            "drift": store.setting("drift"),
            "last_rollout": None if last is None else _shown(last),
            "switches": store.switches(),
            "hosts": store.hosts(),
        }

    @app.get("/v1/audit", tags=["state"], **answers(list[NoteAnswer]))
    def get_audit(caller: Admin, last: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Json]:
        """Who changed what, the latest first."""
        return store.notes(last)

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    def get_metrics(caller: Viewer) -> Response:
        """Prometheus's text format."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", status_code=204, tags=["state"], response_class=Response)
    async def get_health() -> Response:
        """204 while the store answers; no token needed."""
        store.setting("schema_version")
        return Response(status_code=204)
