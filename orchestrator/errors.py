"""What can go wrong in the orchestrator, one tree (below qclimb's, so that one `except` at the edge sees all):

QclimbError
`-- OrchestratorError
    |-- ThresholdError   sizes, load or priorities for which there are no thresholds
    |-- TrainingError    records that make no model, or a model that fails its check
    |-- MissingError     something named that is not there (HTTP 404)
    |-- ConflictError    a request that the present state forbids (HTTP 409)
    |-- StoreError       a database that this version can't use
    `-- FleetError       a switch that did not take, or did not confirm, its intent
"""

from qclimb.errors import QclimbError


class OrchestratorError(QclimbError):
    """Anything of this tree."""


class ThresholdError(OrchestratorError):
    """A distribution, load or number of priorities for which there are no thresholds."""


class TrainingError(OrchestratorError):
    """Records that make no model, or a model that fails its own check."""


class MissingError(OrchestratorError):
    """Something named in a request is not there."""


class ConflictError(OrchestratorError):
    """The present state forbids the request."""


class StoreError(OrchestratorError):
    """The database is not one that this version can use."""


class FleetError(OrchestratorError):
    """A switch did not take its intent. `changed`: it may nevertheless have changed."""

    def __init__(self, message: str, *, changed: bool) -> None:
        super().__init__(message)
        self.changed = changed
