"""What the REST handlers work with."""

from dataclasses import dataclass, field

from .flows import Recordings
from .intake import Intake
from .known import Known
from .metrics import Metrics
from .runner import Runner
from .share import RECORDS_PER_S
from .store import Store
from .trainer import Trainer
from .watch import Watch


@dataclass
class Service:
    """The open parts of one orchestrator."""

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
