"""What can go wrong in the orchestrator, one tree (below qclimb's, so that one `except` at the edge sees all):

QclimbError
`-- OrchestratorError
    |-- ThresholdError   sizes, load or priorities for which there are no thresholds
    |-- TrainingError    records that make no model, or a model that fails its check
    |-- MissingError     something named that is not there (HTTP 404)
    |-- ConflictError    a request that the present state forbids (HTTP 409)
    |-- ReusedKeyError   an Idempotency-Key that came with another request before (HTTP 422)
    |-- TooManyError     more in one request than was asked for (HTTP 413)
    |-- BusyError        more at once than there is room for (HTTP 503, Retry-After)
    |-- StoreError       a database that this version can't use, or that can't be read or written now (HTTP 503)
    |   |-- LedError       another orchestrator leads it
    |   `-- DeposedError   this one led it, and does no more: it has to begin anew
    `-- FleetError       a switch that did not take, or did not confirm, its intent
"""

from qclimb.errors import QclimbError


class OrchestratorError(QclimbError):
    """Anything of this tree."""


class ThresholdError(OrchestratorError):
    """A distribution, load or number of priorities for which there are no thresholds."""


class TrainingError(OrchestratorError):
    """Records that make no model, or a model that fails its own check."""


class ForecastError(OrchestratorError):
    """The simulator did not foretell."""


class MissingError(OrchestratorError):
    """Something named in a request is not there."""


class ConflictError(OrchestratorError):
    """The present state forbids the request."""


class ReusedKeyError(OrchestratorError):
    """The key came with another request before."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Idempotency-Key {key!r}: came with another request before, expected the same one again or a new key"
        )


class TooManyError(OrchestratorError):
    """More in one request than there is need of."""


class BusyError(OrchestratorError):
    """There is no room for it now. `retry_after_s`: there should be then."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class StoreError(OrchestratorError):
    """The database is not one that this version can use, or can't be read or written now."""


class LedError(StoreError):
    """Another orchestrator leads the database."""


class DeposedError(StoreError):
    """This process led the database, and can't know any more what is in it."""


class FleetError(OrchestratorError):
    """A switch did not take its intent.

    `changed`: it may nevertheless have changed. `refused`: it said no. `absent`: it can't be reached.
    """

    def __init__(self, message: str, *, changed: bool, refused: bool = False, absent: bool = False) -> None:
        super().__init__(message)
        self.changed, self.refused, self.absent = changed, refused, absent
