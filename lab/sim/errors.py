"""What can be wrong with an experiment or a run of it, and the checks of settings and of flows' arrays:

SimulationError
|-- ExperimentError   an experiment that cannot be; the sentence names the field
|   `-- MissingData   a trace that is not part of this package, and is not where it was looked for
`-- EngineError       the engine is not there, or stopped
"""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


KINDS: dict[Any, tuple[type, str]] = {
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a word"),
}
"""By the word that a field's type is written with."""


def check_kinds(place: str, settings: Any) -> None:
    """Each field of a dataclass that is to be a number or a word is one; `place` stands before the fields' names.

    Raises: ExperimentError.
    """
    for field in fields(settings):
        value, (kind, expected) = getattr(settings, field.name), KINDS.get(field.type, (object, ""))
        if not isinstance(value, kind) or (isinstance(value, bool) and kind in (Integral, Real)):
            raise ExperimentError(f"{place}{field.name} is {value!r}, expected {expected}")


def check(place: str, value: float, lowest: float, highest: float) -> None:
    """Raises: ExperimentError."""
    if not lowest <= value <= highest:
        raise ExperimentError(f"{place} is {value}, expected {lowest} to {highest}")


def check_each(place: str, values: NDArray[Any], right: NDArray[np.bool_], expected: str) -> None:
    """Raises: ExperimentError, with the first value that is not right."""
    if not right.all():
        at = int(np.argmin(right))
        raise ExperimentError(f"{place}[{at}] is {values[at]}, expected {expected}")


def check_whole(place: str, values: NDArray[Any], count: int, of: str) -> None:
    """So many whole numbers in an array of one dimension, one for each of what `of` says. Raises: ExperimentError."""
    if not (isinstance(values, np.ndarray) and values.ndim == 1 and np.issubdtype(values.dtype, np.integer)):
        kind = f"{values.ndim}-D of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise ExperimentError(f"{place} is {kind}, expected a 1-D array of whole numbers")
    if len(values) != count:
        raise ExperimentError(f"{place} has {len(values)} values for {count} {of}")


def check_ascending(place: str, values: NDArray[Any], most: int) -> None:
    """From 0 on, none less than the one before. Raises: ExperimentError."""
    right = (values >= 0) & (values <= most)
    right[1:] &= values[1:] >= values[:-1]
    check_each(place, values, right, f"0 to {most}, and no less than the one before")
