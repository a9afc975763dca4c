"""The REST door: parses, checks who asks, calls; what is decided, is decided elsewhere.

These handlers run in FastAPI's threads; the health check, and hosts' requests (rest_hosts), on the event loop.
"""

import logging
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse

from . import auth, drift, rest_hosts
from .metrics import Measured
from .once import Keep, fingerprint, once
from .rest_access import (
    REFUSALS,
    Admin,
    Bounded,
    NamePath,
    Once,
    Operator,
    Reader,
    Viewer,
    answer_refusals,
)
from .rest_answers import (
    DriftAnswer,
    HostAnswer,
    MadeModelAnswer,
    MadeRevisionAnswer,
    ModelAnswer,
    NoteAnswer,
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
    RevisionBody,
    RolloutBody,
    SwitchBody,
    TokenBody,
)
from .service import Service
from .unchanged import Unchanged

log = logging.getLogger(__name__)

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]


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
    for add in (_devices, rest_hosts.add, _recordings, _models, _revisions, _rollouts, _rest):
        add(app, service)

    app.add_middleware(Bounded)
    app.add_middleware(Measured, metrics=service.metrics)
    app.add_middleware(Unchanged, known=service.known, metrics=service.metrics)
    return app


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
