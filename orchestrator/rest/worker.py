"""A worker's REST: what hosts ask, and nothing else. It reads the database and writes none of it."""

import logging
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from ..ingest.deliveries import Intake
from ..metrics import Measured, Metrics
from ..store.store import Store
from . import hosts
from .access import REFUSALS
from .files import add_forest
from .head import Head
from .health import add_health
from .host_cache import HostCache
from .limits import Bounded
from .policy_poll import PolicyPoll
from .problems import answer_refusals
from .rates import Rates
from .turns import InTurn, Turns

log = logging.getLogger(__name__)


class Said:
    """Refusals go to this worker's log: the audit log is the leader's."""

    def came(self, actor: str, status: int, asked: str) -> None:
        """One was refused."""
        log.warning("refused actor=%r status=%d asked=%r", actor, status, asked)


class NoLabels:
    """An administrator files flows under another label at the leader."""

    def check_new(self, label: str) -> None:
        """Nothing is known of labels here; the leader bounds them."""


@dataclass
class Worker:
    """The open parts of one worker; what hosts' routes ask of a Service."""

    store: Store
    intake: Intake
    metrics: Metrics
    cache: HostCache = field(init=False)
    refusals: Any = field(default_factory=Said)
    rates: Rates = field(default_factory=Rates)
    turns: Turns = field(default_factory=Turns)
    recordings: NoLabels = field(default_factory=NoLabels)

    def __post_init__(self) -> None:
        self.cache = HostCache(self.store)


def make_worker(worker: Worker) -> FastAPI:
    """The application."""
    app = FastAPI(
        title="qclimb ingest",
        version="1",
        responses=REFUSALS,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = worker
    answer_refusals(app)
    service: Any = worker
    hosts.add(app, service)
    add_forest(app, worker.store)

    add_health(app, worker.store)
    app.add_middleware(InTurn, turns=worker.turns)
    app.add_middleware(Bounded, cache=worker.cache, refusals=worker.refusals, rates=worker.rates)
    app.add_middleware(Measured, metrics=worker.metrics)
    app.add_middleware(PolicyPoll, cache=worker.cache, metrics=worker.metrics)
    app.add_middleware(Head)
    return app
