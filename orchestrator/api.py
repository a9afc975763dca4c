"""The REST door: parses, checks who asks, calls; what is decided, is decided elsewhere.

Refusals are `{"detail": "one sentence that names the field"}`. Handlers are plain functions, run by FastAPI's threads.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from qclimb.errors import QclimbError
from qclimb.histogram import SizeHistogram
from qclimb.policy import Policy
from qclimb.record import FlowRecord
from qclimb.schema import validate_gnmi
from starlette.exceptions import HTTPException

from . import auth, drift, revision, thresholds
from .auth import Caller, Role
from .errors import ConflictError, MissingError
from .flows import DEFAULT_LABEL, Recordings
from .metrics import Metrics
from .once import once, once_delivered
from .rest_types import (
    SQLITE_MAX,
    HostBody,
    Label,
    ModelBody,
    Name,
    RecordingBody,
    RecordsBody,
    RevisionBody,
    RolloutBody,
    SwitchBody,
    TokenBody,
)
from .runner import Runner
from .store import Store
from .trainer import Trainer
from .watch import Watch

log = logging.getLogger(__name__)

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]
NamePath = Annotated[Name, Path()]
Asked = Annotated[str | None, Header(alias="If-None-Match")]
Once = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The request can't be read"},
    401: {"description": "No known token"},
    403: {"description": "The token's role does not include this"},
    404: {"description": "Named, but not there"},
    409: {"description": "The present state forbids it"},
    422: {"description": "A field is wrong; the sentence names it"},
}


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

    app = FastAPI(
        title="qclimb orchestrator",
        version="1",
        description="Flow sizes in; thresholds, forests, switch intents and host policies out.",
        responses=REFUSALS,
        lifespan=life,
    )
    app.state.service = service
    _refusals(app)
    for add in (_devices, _hosts, _recordings, _models, _revisions, _rollouts, _rest):
        add(app, service)

    @app.middleware("http")
    async def measure(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        begun = time.monotonic()
        response = await call_next(request)
        service.metrics.request(request, response.status_code, time.monotonic() - begun)
        return response

    return app


def needs(*roles: Role) -> Any:
    """The caller, whose role includes one of `roles`; else 401 or 403."""

    def caller(request: Request, authorization: Annotated[str | None, Header()] = None) -> Caller:
        found = auth.identify(request.app.state.service.store, authorization)
        if found is None:
            raise HTTPException(401, "Authorization: expected Bearer and a known token", {"WWW-Authenticate": "Bearer"})
        if not any(found.may(role) for role in roles):
            wanted = " or ".join(roles)
            raise HTTPException(403, f"role of token {found.name!r} is {found.role}, expected {wanted}")
        return found

    return Depends(caller)


def this_host(name: NamePath, caller: Annotated[Caller, needs(Role.HOST)]) -> Caller:
    """A host's own token, or an admin's."""
    if caller.role is Role.HOST and caller.name != name:
        raise HTTPException(403, f"token {caller.name!r} acts for host {caller.name!r} alone, not for {name!r}")
    return caller


Viewer = Annotated[Caller, needs(Role.VIEWER)]
Operator = Annotated[Caller, needs(Role.OPERATOR)]
Admin = Annotated[Caller, needs(Role.ADMIN)]
Reader = Annotated[Caller, needs(Role.VIEWER, Role.HOST)]
ThisHost = Annotated[Caller, Depends(this_host)]


def _refusals(app: FastAPI) -> None:
    def sentence(status: int) -> Callable[[Request, Exception], JSONResponse]:
        return lambda request, error: JSONResponse({"detail": str(error)}, status)

    app.add_exception_handler(MissingError, sentence(404))
    app.add_exception_handler(ConflictError, sentence(409))
    app.add_exception_handler(QclimbError, sentence(422))

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


def _devices(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.put("/v1/switches/{name}", tags=["devices"])
    def put_switch(name: NamePath, body: SwitchBody, caller: Admin) -> Json:
        """Registers a switch, or says where it is now."""
        store.put_switch(name, body.address, body.role, body.server_name)
        store.note(caller.name, "put-switch", f"{name} {body.address}")
        log.info("switch name=%s address=%s event=registered by=%s", name, body.address, caller.name)
        return store.switches()[name]

    @app.get("/v1/switches", tags=["devices"])
    def get_switches(caller: Viewer) -> list[Json]:
        """All switches."""
        return list(store.switches().values())

    @app.delete("/v1/switches/{name}", status_code=204, tags=["devices"])
    def delete_switch(name: NamePath, caller: Admin) -> None:
        """Forgets a switch; what it is configured to do stays."""
        _refuse_while_running(service)
        store.remove_device("switches", name)
        store.note(caller.name, "delete-switch", name)

    @app.put("/v1/hosts/{name}", tags=["devices"])
    def put_host(name: NamePath, caller: Admin, body: HostBody | None = None) -> Json:
        """Registers a host."""
        if store.put_host(name):
            store.note(caller.name, "put-host", name)
        return store.hosts()[name]

    @app.get("/v1/hosts", tags=["devices"])
    def get_hosts(caller: Viewer) -> list[Json]:
        """All hosts, with the policy generation that each last reported."""
        return list(store.hosts().values())

    @app.delete("/v1/hosts/{name}", status_code=204, tags=["devices"])
    def delete_host(name: NamePath, caller: Admin) -> None:
        """Forgets a host."""
        _refuse_while_running(service)
        store.remove_device("hosts", name)
        store.note(caller.name, "delete-host", name)

    @app.post("/v1/tokens", status_code=201, tags=["devices"])
    def post_token(body: TokenBody, caller: Admin) -> Json:
        """Makes a token. It is shown this once."""
        token = auth.issue(store, body.name, body.role)
        store.note(caller.name, "make-token", f"{body.role} {body.name}")
        return {"token": token, "role": body.role, "name": body.name}

    @app.delete("/v1/tokens/{name}", tags=["devices"])
    def delete_tokens(name: NamePath, caller: Admin) -> Json:
        """Revokes all tokens of a name."""
        revoked = store.revoke_tokens(name)
        store.note(caller.name, "revoke-tokens", name)
        return {"revoked": revoked}


def _refuse_while_running(service: Service) -> None:
    if service.runner.running is not None:
        raise ConflictError(f"rollout {service.runner.running} is running, wait for its end")


def _hosts(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/hosts/{name}/records", status_code=202, tags=["hosts"])
    def post_records(name: NamePath, body: RecordsBody, caller: ThisHost, key: Once = None) -> Json:
        """Finished flows since the last delivery; without any it is a heartbeat."""
        store.host_seen(name, body.policy_generation)
        try:
            return taken(name, body, key)
        finally:  # after its flows: they were bounded before the host took up what it now reports
            service.runner.host_reported(name, body.policy_generation)

    def taken(name: str, body: RecordsBody, key: str | None) -> Json:
        records = [FlowRecord.from_json(record) for record in body.records]
        sizes = None if body.histogram is None else SizeHistogram.from_json(body.histogram)
        label = body.label or store.setting("recording") or DEFAULT_LABEL

        def take() -> Json:
            service.recordings.add(label, name, records, sizes, body.dropped)
            service.metrics.flows(name, len(records), body.dropped, body.unobserved)
            return {"label": label, "records": len(records)}

        return once_delivered(store, name, key, take)

    @app.get("/v1/hosts/{name}/policy", tags=["hosts"], responses={304: {"description": "Still the asked one"}})
    def get_policy(name: NamePath, caller: ThisHost, asked: Asked = None) -> Response:
        """The policy in force; its ETag is the generation. 404 before the first rollout."""
        if name not in store.hosts():
            raise MissingError(f"hosts: no {name!r} is registered, PUT /v1/hosts/{name} first")
        found = store.setting("policy")
        if found is None:
            raise MissingError("policy: none is in force yet, roll a revision out first")
        policy = Policy.from_json(found)
        etag = f'"{policy.generation}"'
        if asked is not None and etag in (part.strip().removeprefix("W/") for part in asked.split(",")):
            return Response(status_code=304, headers={"ETag": etag})
        return JSONResponse(policy.to_json(), headers={"ETag": etag})


def _recordings(app: FastAPI, service: Service) -> None:
    @app.get("/v1/flows/statistics", tags=["flows"])
    def get_statistics(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Json:
        """Sizes of the flows of one recording, or of all."""
        return service.recordings.statistics(label)

    @app.get("/v1/flows/drift", tags=["flows"])
    def get_drift(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Json:
        """Coverage and fallbacks of the bounds in force, by window; why they no longer hold, or null."""
        windows = drift.reported(service.recordings.rows(label)[0])
        return {"label": label, "windows": [each.to_json() for each in windows], "drifted": drift.drifted(windows)}

    @app.get("/v1/recording", tags=["flows"])
    def get_recording(caller: Viewer) -> Json:
        """The label under which records are filed now."""
        return {"label": service.store.setting("recording"), "labels": service.recordings.labels()}

    @app.put("/v1/recording", tags=["flows"])
    def put_recording(body: RecordingBody, caller: Operator) -> Json:
        """Begins, or with null ends, a recording."""
        service.store.set_setting("recording", body.label)
        service.store.note(caller.name, "recording", body.label or "-")
        log.info("recording label=%r by=%s", body.label, caller.name)
        return {"label": body.label, "labels": service.recordings.labels()}


def _models(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/models", status_code=201, tags=["models"])
    def post_model(body: ModelBody, caller: Operator, key: Once = None) -> Json:
        """Trains a forest on a recording, checks it, and answers with how well it bounds the flows it was not shown."""

        def make() -> Json:
            rows, hosts = service.recordings.rows(body.label)
            generation = store.reserve_model()
            wanted = body.model_dump(exclude={"label"})
            policy = store.setting("policy")
            if policy is not None and policy["model_generation"]:
                wanted["rival"] = bytes(store.model(policy["model_generation"])["forest"])
            made = service.trainer.train(rows, hosts, generation, wanted)
            store.add_model(generation, body.label, made.report, made.onnx, made.forest)
            store.note(caller.name, "train-model", f"{generation} {body.label}")
            log.info("model generation=%d label=%r coverage=%s", generation, body.label, made.report["coverage"])
            return {"generation": generation, "label": body.label, "report": made.report}

        return once(store, caller.name, key, "models", make)

    @app.get("/v1/models", tags=["models"])
    def get_models(caller: Viewer) -> list[Json]:
        """All models with their reports."""
        return store.models()

    @app.get("/v1/models/{generation}", tags=["models"])
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

    @app.post("/v1/revisions", status_code=201, tags=["rollouts"])
    def post_revision(body: RevisionBody, caller: Operator, key: Once = None) -> Json:
        """Makes a revision: thresholds are computed, everything is checked, nothing is changed in the fabric."""

        def make() -> Json:
            document = revision_document(service, body)
            number = store.add_revision(caller.name, document)
            store.note(caller.name, "make-revision", str(number))
            return {"id": number, **document}

        return once(store, caller.name, key, "revisions", make)

    @app.get("/v1/revisions", tags=["rollouts"])
    def get_revisions(caller: Viewer) -> list[Json]:
        """All revisions."""
        return [_flat(row) for row in store.revisions()]

    @app.get("/v1/revisions/{number}", tags=["rollouts"])
    def get_revision(number: Id, caller: Viewer) -> Json:
        """One revision."""
        return _flat(store.revision(number))


def revision_document(service: Service, body: RevisionBody) -> Json:
    """The revision that a request describes, as it is stored."""
    chosen: Json | None
    if body.thresholds == "optimise":
        sizes = thresholds.SizeDistribution.from_histogram(service.recordings.histogram(body.label))
        found = thresholds.optimise(
            sizes, body.priorities, body.load, body.objective, body.last_share, body.segment_bytes
        )
        threshold_bytes = found.threshold_bytes
        chosen = {"objective": body.objective, "load": body.load, "label": body.label}
        chosen |= {"last_share": body.last_share, "segment_bytes": body.segment_bytes}
        chosen |= {"cost": found.cost, "thresholds_needed": found.used}
    else:
        threshold_bytes = tuple(body.thresholds)
        chosen = None
    if body.model is not None:
        service.store.model(body.model)
    made = revision.compose(
        body.mode,
        threshold_bytes,
        body.priorities,
        None if body.queues is None else tuple(body.queues),
        tuple(body.ports or ()),
        body.ecn_bytes,
        # As many as PIAS's first threshold: a forest that knows nothing is then PIAS, neither better nor worse.
        slack_bytes=threshold_bytes[0] if body.slack_bytes is None and threshold_bytes else body.slack_bytes or 0,
        small_coflow_bytes=body.small_coflow_bytes,
        flow_gap_us=body.flow_gap_us,
        promote_wait_us=body.promote_wait_us,
        deadline_step_us=body.deadline_step_us,
        optax=body.optax,
        use_forest=body.use_forest,
        use_footprint=body.use_footprint,
        quickack=body.quickack,
        model_generation=body.model or 0,
    )
    validate_gnmi(made.intent.to_gnmi())
    return {"threshold_bytes": list(threshold_bytes), "optimised": chosen, **made.to_json()}


def _flat(row: Json) -> Json:
    return {"id": row["id"], "created_at": row["created_at"], "created_by": row["created_by"], **row["document"]}


def _rollouts(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/rollouts", status_code=202, tags=["rollouts"])
    def post_rollout(body: RolloutBody, caller: Operator, key: Once = None) -> Json:
        """Begins to bring a revision into force: switches first, then hosts. One at a time (409)."""

        def make() -> Json:
            number = service.runner.start(body.revision, caller.name)
            store.note(caller.name, "start-rollout", f"{number} revision {body.revision}")
            return {"id": number, "generation": number, "revision": body.revision}

        return once(store, caller.name, key, "rollouts", make)

    @app.get("/v1/rollouts", tags=["rollouts"])
    def get_rollouts(caller: Viewer) -> list[Json]:
        """All rollouts."""
        return [_shown(row) for row in store.rollouts()]

    @app.get("/v1/rollouts/{number}", tags=["rollouts"])
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

    @app.get("/v1/state", tags=["state"])
    def get_state(caller: Viewer) -> Json:
        """The whole fabric at a glance."""
        policy, rollouts = store.setting("policy"), store.rollouts()
        return {
            "policy": policy,
            "policy_generation": 0 if policy is None else policy["generation"],
            "recording": store.setting("recording"),
            "running_rollout": service.runner.running,
            "drift": store.setting("drift"),
            "last_rollout": _shown(rollouts[-1]) if rollouts else None,
            "switches": store.switches(),
            "hosts": store.hosts(),
        }

    @app.get("/v1/audit", tags=["state"])
    def get_audit(caller: Admin, last: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Json]:
        """Who changed what, the latest first."""
        return store.notes(last)

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    def get_metrics(caller: Viewer) -> Response:
        """Prometheus's text format."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", status_code=204, tags=["state"], response_class=Response)
    def get_health() -> Response:
        """204 while the store answers; no token needed."""
        store.setting("schema_version")
        return Response(status_code=204)
