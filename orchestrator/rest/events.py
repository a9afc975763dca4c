"""What happens, as it happens: server-sent events (text/event-stream, WHATWG HTML 9.2) of a rollout, of the fabric.

Looked at some times a second in memory, and told where it differs: 20,000 hosts' reports are a few events.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from ..errors import BusyError
from ..fabric.rollout import OPEN, Plan, Rollout
from ..store.store import StoredRollout
from .access import Viewer
from .bodies import SQLITE_MAX
from .service import Service

Json = dict[str, Any]
Id = Annotated[int, Path(ge=1, le=SQLITE_MAX)]
Events = AsyncIterator[ServerSentEvent]

EVERY_S = 0.25
STREAMS_MOST = 64
"""Each is a connection that stays open."""
STREAMS_OF_ONE = 8
"""Of one token."""
RETRY_AFTER_S = 10


def of(number: int, rollout: Rollout) -> Json:
    """A rollout that runs: how many devices are in which phase."""
    return {
        "id": number,
        "generation": rollout.generation,
        "phase": rollout.phase,
        "error": rollout.error,
        "active": rollout.active,
        "wave": rollout.wave,
        "plan": asdict(rollout.plan),
        "switches": {phase: count for phase, count in rollout.switches.counts.items() if count},
        "hosts": {phase: count for phase, count in rollout.hosts.counts.items() if count},
    }


def kept(service: Service, number: int) -> Json:
    """The same of one that does not run, as the store has it."""
    row = service.store.rollout(number)
    found: Json = {
        "id": number,
        "generation": row.generation,
        "phase": row.phase,
        "error": row.document.get("error"),
        "active": row.document.get("active", False),
        "wave": row.document.get("wave", 0),
        "plan": row.document.get("plan", asdict(Plan())),
    }
    counted = {
        kind: Counter(step["phase"] for step in steps.values()) for kind, steps in service.store.steps(number).items()
    }
    return found | counted


def add(app: FastAPI, service: Service) -> None:
    """Its routes."""
    streams: Counter[str] = Counter()
    """open now, by token"""

    async def room(caller: Viewer) -> AsyncIterator[None]:
        """Holds a stream's room until it has ended."""
        if (own := streams[caller.name]) >= STREAMS_OF_ONE:
            raise HTTPException(
                429,
                f"token {caller.name!r}: has {own} event streams open, expected fewer than {STREAMS_OF_ONE}",
                {"Retry-After": str(RETRY_AFTER_S)},
            )
        if (of_all := streams.total()) >= STREAMS_MOST:
            raise BusyError(f"events: {of_all} streams are open, expected fewer than {STREAMS_MOST}", RETRY_AFTER_S)
        streams[caller.name] += 1
        try:
            yield
        finally:
            streams[caller.name] -= 1

    async def differing(event: str, look: Callable[[], Awaitable[Json]], is_last: Callable[[Json], bool]) -> Events:
        last: Json | None = None
        while True:
            now = await look()
            if now != last:
                yield ServerSentEvent(event=event, data=now)
                last = now
            if is_last(now):
                return
            await asyncio.sleep(EVERY_S)

    def asked(number: Id) -> StoredRollout:
        return service.store.rollout(number)  # MissingError before the stream begins

    @app.get(
        "/v1/rollouts/{number}/events",
        tags=["rollouts"],
        response_class=EventSourceResponse,
        dependencies=[Depends(room)],
    )
    async def get_rollout_events(caller: Viewer, row: Annotated[StoredRollout, Depends(asked)]) -> Events:
        """A rollout's progress, an event `rollout` at each change; the stream ends with the rollout."""

        async def look() -> Json:
            current = service.runner.now
            if current is not None and current[0] == row.id and not current[1].ended:
                return of(*current)  # it has ended once the store has its end: whoever asks then sees the same
            return await asyncio.to_thread(kept, service, row.id)

        async for each in differing("rollout", look, lambda now: now["phase"] not in OPEN):
            yield each

    @app.get("/v1/events", tags=["state"], response_class=EventSourceResponse, dependencies=[Depends(room)])
    async def get_events(caller: Viewer) -> Events:
        """Events `fabric`: the rollout that runs, the policy in force; `changes` counts what else was changed."""

        async def look() -> Json:
            current, policy = service.runner.now, service.cache.policy
            return {
                "changes": service.store.changes,
                "policy_generation": 0 if policy is None else int(policy.etag.strip('"')),
                "rollout": None if current is None else of(*current),
            }

        async for each in differing("fabric", look, lambda now: False):
            yield each
