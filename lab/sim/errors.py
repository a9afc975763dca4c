"""What can be wrong with an experiment or a run of it, and the check of a setting:

SimulationError
|-- ExperimentError   an experiment that cannot be; the sentence names the field
|   `-- MissingData   a trace that is not part of this package, and is not where it was looked for
`-- EngineError       the engine is not there, or stopped
"""


class SimulationError(Exception):
    """The simulator can't do this."""


class ExperimentError(SimulationError):
    """An experiment that cannot be: the field, the value found there, what was expected."""


class MissingData(ExperimentError):
    """Data that this package does not have: where they were looked for, and how to name another place."""


class EngineError(SimulationError):
    """The engine is not built, or broke off: its last words."""


Settings = dict[str, int | str]
"""As the engine is told them."""


def check(place: str, value: float, lowest: float, highest: float) -> None:
    """Raises: ExperimentError."""
    if not lowest <= value <= highest:
        raise ExperimentError(f"{place} is {value}, expected {lowest} to {highest}")
