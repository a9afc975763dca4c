"""What the REST handlers work with."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qclimb.stretch import Stretch

from ..defaults import LINK_GBPS
from ..fabric.runner import Runner
from ..ingest.deliveries import Intake
from ..ingest.lengths import Lengths
from ..ingest.quota import RECORDS_PER_S
from ..ingest.recordings import Recordings
from ..metrics import Metrics
from ..models.simulator import Simulator
from ..models.trainer import Trainer
from ..store.store import Store
from ..watch.bounds import Watch
from ..watch.course import Course
from ..watch.off import OffKeeper
from ..watch.spines import SpineWatch
from ..watch.switches import SwitchWatch
from .host_cache import HostCache
from .rates import Rates
from .refusals import Refusals
from .turns import Turns


@dataclass
class Service:
    """The open parts of one orchestrator."""

    store: Store
    recordings: Recordings
    runner: Runner
    trainer: Trainer
    metrics: Metrics
    watch: Watch
    spines: SpineWatch
    switches: SwitchWatch
    records_per_s: int = RECORDS_PER_S
    link_gbps: float = LINK_GBPS
    certificates: Mapping[str, Path] = field(default_factory=dict)
    """files, by what they are for"""
    simulator: Simulator = field(default_factory=Simulator)
    cache: HostCache = field(init=False)
    intake: Intake = field(init=False)
    lengths: Lengths = field(init=False)
    refusals: Refusals = field(init=False)
    off_keeper: OffKeeper = field(init=False)
    course: Course = field(default_factory=Course)
    rates: Rates = field(default_factory=Rates)
    turns: Turns = field(default_factory=Turns)

    def __post_init__(self) -> None:
        self.cache = HostCache(self.store)
        self.refusals = Refusals(self.store)
        self.off_keeper = OffKeeper(self.store)
        self.lengths = Lengths(self.store)
        self.intake = Intake(
            self.store,
            self.recordings,
            self.metrics,
            self.runner.host_reported,
            self.records_per_s,
            self.link_gbps,
            self._felt,
        )

    def forget_host(self, name: str) -> None:
        """It is registered no more: no measure rests on it."""
        self.runner.felt.forget(name)
        self.course.forget(name)

    def _felt(self, host: str, stretch: Stretch) -> None:
        if not self.cache.has_host(host):  # its last delivery came late
            return
        self.runner.host_felt(host, stretch)
        policy = self.cache.policy
        self.course.add(host, stretch, time.time(), 0 if policy is None else int(policy.etag.strip('"')))
