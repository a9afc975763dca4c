"""Rollouts by REST: begin, watch, pause, resume, abort."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response

from ..fabric.rollout import Pace, Plan
from ..store.store import Store, StoredRollout
from . import answers
from .access import Once, Operator, Viewer
from .bodies import SQLITE_MAX, RolloutBody
from .idempotency import Keep, asked, once
from .pages import LIMIT, AfterId, Limit, page
from .service import Service
from .tags import IfMatch, check_match

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]


class Ask(StrEnum):
    """What may be asked of a rollout that runs."""

    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"


def add(app: FastAPI, service: Service) -> None:
    """Its routes."""
    store = service.store

    @app.post("/v1/rollouts", tags=["rollouts"], **answers.of(answers.Started, 202))
    def post_rollout(
        body: RolloutBody, request: Request, caller: Operator, key: Once = None, match: IfMatch = None
    ) -> Json:
        """Begins to bring a revision into force: switches first, then hosts. One at a time (409).

        If-Match: the ETag of the policy that is to be in force now, its generation in quotes.
        """

        def make(keep: Keep) -> Json:
            begun: Json = {}

            def also(number: int, generation: int) -> None:
                store.note(caller.name, "start-rollout", f"{number} revision {body.revision}")
                begun.update(keep({"id": number, "generation": generation, "revision": body.revision}))

            now = service.cache.policy
            check_match(match, None if now is None else now.etag, "the policy in force")
            service.spines.check_rollout(body.revision)
            pace = Pace(tuple(body.waves), body.soak_s, body.absent_most, body.slowdown_most, body.drops_most)
            service.runner.start(body.revision, caller.name, pace=pace, also=also)
            return begun

        return once(store, caller.name, key, asked(request, body), make)

    @app.post("/v1/rollouts/{number}/{ask}", tags=["rollouts"], **answers.of(answers.Asked, 202))
    def post_ask(number: Id, ask: Ask, caller: Operator) -> Json:
        """Pauses, resumes or aborts a rollout. Aborted, its switches get back what they had (409: too late)."""
        match ask:
            case Ask.PAUSE:
                service.runner.pause(number)
            case Ask.RESUME:
                service.runner.resume(number)
            case Ask.ABORT:
                service.runner.abort(number, caller.name)
        store.note(caller.name, f"{ask}-rollout", str(number))
        return {"id": number, "phase": store.rollout(number).phase}

    @app.get("/v1/rollouts", tags=["rollouts"], **answers.of(answers.CountedRollout, many=True))
    def get_rollouts(
        caller: Viewer, request: Request, response: Response, limit: Limit = LIMIT, after: AfterId = None
    ) -> list[Json]:
        """All rollouts, in pages, with how many switches and hosts are in which phase."""
        none: Json = {"switches": {}, "hosts": {}}
        rows = page(store.rollouts(), lambda each: each.id, limit, after, request, response)
        counts = store.counted_steps(rows[0].id, rows[-1].id) if rows else {}
        return [whole(row) | counts.get(row.id, none) for row in rows]

    @app.get("/v1/rollouts/{number}", tags=["rollouts"], **answers.of(answers.Rollout))
    def get_rollout(number: Id, caller: Viewer) -> Json:
        """How far a rollout has got, by device."""
        return shown(store, store.rollout(number))


def shown(store: Store, found: StoredRollout) -> Json:
    """A rollout by device, without what switches had before."""
    steps = store.steps(found.id)
    for step in steps["switches"].values():
        for own in ("previous", "again"):
            step.pop(own, None)
    return whole(found) | steps


def whole(found: StoredRollout) -> Json:
    """A rollout but for its devices."""
    return {
        "id": found.id,
        "generation": found.generation,
        "revision": found.revision,
        "created_at": found.created_at,
        "created_by": found.created_by,
        "phase": found.phase,
        "error": found.document["error"],
        "wave": found.document.get("wave", 0),
        "plan": found.document.get("plan", asdict(Plan())),
    }
