"""The emergency exit by REST: it needs an operator's token and nothing else."""

from typing import Any

from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from ..store.store import Store
from . import answers
from .access import Operator
from .service import Service

Json = dict[str, Any]


def add(app: FastAPI, service: Service) -> None:
    """Its routes."""
    store = service.store

    @app.put("/v1/off", tags=["rollouts"], **answers.of(answers.Off))
    async def put_off(caller: Operator) -> Json:
        """Switches all hosts off: from its next poll on each marks nothing. The rollout that runs ends.

        It needs no revision and no recorded sizes, and holds also while the database can't be written. Taken back by
        DELETE, or by a rollout that begins after it, once that one's policy is in force.
        """
        off = service.runner.switch_off(caller.name)  # on the event loop: threads may all wait for the database
        await run_in_threadpool(service.runner.end_off, caller.name)
        return {**off.to_json(), "unkept": store.off_unkept}

    @app.delete("/v1/off", status_code=204, tags=["rollouts"])
    def delete_off(caller: Operator) -> None:
        """Has hosts follow the policy in force again (409: they do)."""
        store.switch_on(caller.name)


def told_off(store: Store) -> Json | None:
    """That hosts are switched off, and whether it is kept; None: they are not."""
    off = store.off
    return None if off is None else {**off.to_json(), "unkept": store.off_unkept}
