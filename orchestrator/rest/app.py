"""The REST door: parses, checks who asks, calls; what is decided, is decided elsewhere.

These handlers run in FastAPI's threads; hosts' requests (hosts.py) on the event loop.
"""

import logging
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from qclimb.histogram import SizeHistogram
from qclimb.policy import Policy

from ..fabric.difference import Changes, would_change
from ..ingest.recordings import Statistics
from ..metrics import Measured
from ..models import drift
from ..plan.revision import propose, warnings_of
from ..store.store import Model, Note, StoredRevision
from . import answers, devices, documentation, events, files, hosts, lengths, off, overview, page, rollouts
from .access import (
    REFUSALS,
    Admin,
    Once,
    Operator,
    Viewer,
)
from .bodies import (
    SQLITE_MAX,
    Label,
    ModelBody,
    RecordingBody,
    RevisionBody,
)
from .head import Head
from .health import add_health, add_ready
from .idempotency import Keep, asked, once
from .limits import Bounded
from .off import told_off
from .pages import LIMIT, AfterId, Limit
from .pages import page as paged
from .policy_poll import PolicyPoll
from .problems import answer_refusals
from .service import Service
from .tags import IfMatch, Tagged, check_match, etag_of
from .turns import InTurn

log = logging.getLogger(__name__)

DRIFT_FLOWS = 100 * drift.WINDOW_FLOWS
"""The newest so many are shown by windows."""

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]


class Application(FastAPI):
    """Its document has Refusal: by `model` a refusal would have the content type of the route's other answers."""

    def openapi(self) -> Json:
        """The document."""
        found = super().openapi()
        schemas = found["components"]["schemas"]
        for model in (answers.Refusal, answers.WrongField):
            told = model.model_json_schema(ref_template="#/components/schemas/{model}")
            told.pop("$defs", None)
            schemas[told["title"]] = told
        return found


def make_app(service: Service) -> FastAPI:
    """The application over an open service; closing the app closes the service."""

    @asynccontextmanager
    async def life(_: FastAPI) -> Any:
        service.runner.recover()
        service.watch.start()
        service.spines.start()
        service.off_keeper.start()
        yield
        service.watch.close()
        service.spines.close()
        service.off_keeper.close()
        service.refusals.close()
        service.runner.close()
        service.trainer.close()

    app = Application(
        title="qclimb orchestrator",
        version="1",
        description="Flow sizes in; thresholds, forests, switch intents and host policies out.",
        responses=REFUSALS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # to http://, where a proxy in front ends TLS, and to whatever Host says
        lifespan=life,
    )
    app.state.service = service
    answer_refusals(app)
    for add in (
        devices.add,
        hosts.add,
        _recordings,
        _models,
        _revisions,
        rollouts.add,
        off.add,
        lengths.add,
        events.add,
        overview.add,
        _rest,
        documentation.add,
        page.add,
    ):
        add(app, service)

    app.add_middleware(Tagged)
    app.add_middleware(InTurn, turns=service.turns)
    app.add_middleware(Bounded, cache=service.cache, refusals=service.refusals, rates=service.rates)
    app.add_middleware(Measured, metrics=service.metrics)
    app.add_middleware(PolicyPoll, cache=service.cache, metrics=service.metrics)
    app.add_middleware(Head)
    return app


def _recordings(app: FastAPI, service: Service) -> None:
    @app.get("/v1/flows/statistics", tags=["flows"], **answers.of(answers.Statistics))
    def get_statistics(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Statistics:
        """Sizes of the flows of one recording, or of all."""
        return service.recordings.statistics(label)

    @app.get("/v1/flows/drift", tags=["flows"], **answers.of(answers.Drift))
    def get_drift(caller: Viewer, label: Annotated[Label | None, Query()] = None) -> Json:
        """Coverage and fallbacks of the bounds in force, by window; why they no longer hold, or null."""
        windows = drift.reported(service.recordings.newest(DRIFT_FLOWS, label=label)[0])
        return {"label": label, "windows": [each.to_json() for each in windows], "drifted": drift.drifted(windows)}

    @app.delete("/v1/flows", status_code=204, tags=["flows"])
    def delete_flows(label: Annotated[Label, Query()], caller: Operator) -> None:
        """Forgets all flows of a recording."""
        with service.store.writing(cached=False):
            service.recordings.remove(label)
            service.store.note(caller.name, "delete-flows", label)
        log.info("recording label=%r event=deleted by=%s", label, caller.name)

    @app.get("/v1/recording", tags=["flows"], **answers.of(answers.Recording))
    def get_recording(caller: Viewer, response: Response) -> Json:
        """The label under which records are filed now."""
        label = service.store.setting("recording")
        response.headers["ETag"] = etag_of({"label": label})
        return {"label": label, "labels": service.recordings.labels()}

    @app.put("/v1/recording", tags=["flows"], **answers.of(answers.Recording))
    def put_recording(body: RecordingBody, caller: Operator, match: IfMatch = None) -> Json:
        """Begins, or with null ends, a recording."""
        if body.label is not None:
            service.recordings.check_new(body.label)
        with service.store.writing():
            check_match(match, etag_of({"label": service.store.setting("recording")}), "the recording")
            service.store.set_setting("recording", body.label)
            service.store.note(caller.name, "recording", body.label or "-")
        log.info("recording label=%r by=%s", body.label, caller.name)
        return {"label": body.label, "labels": service.recordings.labels()}


def _models(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/models", tags=["models"], **answers.of(answers.MadeModel, 201))
    def post_model(body: ModelBody, request: Request, caller: Operator, key: Once = None) -> Json:
        """Trains a forest on a recording, checks it, and answers with how well it bounds the flows it was not shown."""

        def make(keep: Keep) -> Json:
            rows, hosts = service.recordings.rows(body.label)
            generation = store.reserve_model()
            wanted = body.model_dump(exclude={"label"})
            policy = store.setting("policy")
            if policy is not None and policy["model_generation"]:
                wanted["rival"] = store.model_files(policy["model_generation"]).forest
            made = service.trainer.train(rows, hosts, generation, wanted)
            with store.writing():
                store.add_model(generation, body.label, made.report, made.onnx, made.forest)
                store.note(caller.name, "train-model", f"{generation} {body.label}")
                answer = keep({"generation": generation, "label": body.label, "report": made.report})
            log.info("model generation=%d label=%r coverage=%s", generation, body.label, made.report["coverage"])
            return answer

        return once(store, caller.name, key, asked(request, body), make)

    @app.get("/v1/models", tags=["models"], **answers.of(answers.Model, many=True))
    def get_models(
        caller: Viewer, request: Request, response: Response, limit: Limit = LIMIT, after: AfterId = None
    ) -> list[Model]:
        """All models with their reports, in pages."""
        return paged(store.models(), lambda each: each.generation, limit, after, request, response)

    @app.get("/v1/models/{generation}", tags=["models"], **answers.of(answers.Model))
    def get_model(generation: Id, caller: Viewer) -> Model:
        """A model's report."""
        return store.model(generation)

    files.add_forest(app, store)
    files.add_onnx(app, store)


def _revisions(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.post("/v1/revisions", tags=["rollouts"], **answers.of(answers.MadeRevision, 201))
    def post_revision(body: RevisionBody, request: Request, caller: Operator, key: Once = None) -> Json:
        """Makes a revision: thresholds are computed, everything is checked, nothing is changed in the fabric."""

        def make(keep: Keep) -> Json:
            sizes, light = service.recordings.weighed(body.label) if body.needs_sizes else (SizeHistogram(), {})
            if body.model is not None:
                store.model(body.model)  # MissingError where there is none
            told = {**dict(body), "port": body.port and body.port.known}
            document = propose(sizes, light, ask=service.simulator.ask, **told)
            service.spines.check_new(document)
            with store.writing():
                number = store.add_revision(caller.name, document)
                store.note(caller.name, "make-revision", str(number))
                return keep({"id": number, **document, "warnings": _warnings(document)})

        return once(store, caller.name, key, asked(request, body), make)

    @app.get("/v1/revisions", tags=["rollouts"], **answers.of(answers.Revision, many=True))
    def get_revisions(
        caller: Viewer, request: Request, response: Response, limit: Limit = LIMIT, after: AfterId = None
    ) -> list[Json]:
        """All revisions, in pages."""
        rows = paged(store.revisions(), lambda each: each.id, limit, after, request, response)
        return [_flat(row) for row in rows]

    @app.get("/v1/revisions/{number}", tags=["rollouts"], **answers.of(answers.Revision))
    def get_revision(number: Id, caller: Viewer) -> Json:
        """One revision."""
        return _flat(store.revision(number))

    @app.get("/v1/revisions/{number}/changes", tags=["rollouts"], **answers.of(answers.Changes))
    def get_changes(number: Id, caller: Operator) -> Changes:
        """A dry run: what a rollout of it would change at each switch, which is asked, and at hosts."""
        return would_change(store, service.runner.fleet, number)


def _flat(found: StoredRevision) -> Json:
    document = found.document
    own = {"id": found.id, "created_at": found.created_at, "created_by": found.created_by}
    return {**own, **document, "warnings": _warnings(document)}


def _warnings(document: Json) -> list[str]:
    return warnings_of(Policy.from_json(document["policy"]))


def _rest(app: FastAPI, service: Service) -> None:
    store = service.store

    @app.get("/v1/state", tags=["state"], **answers.of(answers.State))
    def get_state(caller: Viewer) -> Json:
        """The whole fabric at a glance."""
        policy, last = store.setting("policy"), store.last_rollout()
        return {
            "policy": policy,
            "policy_generation": 0 if policy is None else policy["generation"],
            "off": told_off(store),
            "recording": store.setting("recording"),
            "running_rollout": service.runner.running,
            "drift": store.setting("drift"),
            "last_rollout": None if last is None else rollouts.shown(store, last),
            "switches": store.switches(),
            "switches_drifted": dict(service.switches.drifts),
            "hosts": store.hosts(),
            "flows_not_believed": dict(service.intake.not_believed),
            "flows_unobserved": dict(service.intake.unobserved),
        }

    @app.get("/v1/spines", tags=["state"], **answers.of(answers.Spines))
    def get_spines(caller: Viewer) -> Json:
        """Which spines are used, and what each leaf tells of them."""
        return service.spines.told()

    @app.get("/v1/audit", tags=["state"], **answers.of(answers.Note, many=True))
    def get_audit(caller: Admin, last: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[Note]:
        """Who changed what, the latest first."""
        return store.notes(last)

    @app.get("/metrics", tags=["state"], response_class=PlainTextResponse)
    def get_metrics(caller: Viewer) -> Response:
        """Prometheus's text format."""
        return Response(service.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    add_health(app, store)
    add_ready(app, store)
