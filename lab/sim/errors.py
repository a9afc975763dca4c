"""What can be wrong with an experiment or a run of it, and the checks of settings and of flows' arrays:

SimulationError
|-- ExperimentError   an experiment that cannot be; the sentence names the field
|   `-- MissingData   a trace that is not part of this package, and is not where it was looked for
`-- EngineError       the engine is not there, or stopped
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

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
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "true or false"),
    str: (str, "a word"),
}


def check_kinds(place: str, settings: Any) -> None:
    """Each field of a dataclass has the type that it is declared with; `place` stands before the fields' names. Arrays
    are `check_whole`'s.

    Raises: ExperimentError.
    """
    for name, kind in get_type_hints(type(settings)).items():
        if get_origin(kind) is ClassVar:
            continue
        value = getattr(settings, name)
        if not _is_of(value, kind):
            raise ExperimentError(f"{place}{name} is {value!r}, expected {_named(kind)}")


def _is_of(value: Any, kind: Any) -> bool:
    within, parts = get_origin(kind), get_args(kind)
    if within in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if within is Literal:
        return isinstance(value, str)  # which words there are is the field's own check
    if within is Mapping:
        if not isinstance(value, Mapping):
            return False
        return all(_is_of(key, parts[0]) and _is_of(each, parts[1]) for key, each in value.items())
    if within in (tuple, list):
        if not isinstance(value, within):
            return False
        each = parts[:1] * len(value) if within is list or parts[-1] is ... else parts
        return len(value) == len(each) and all(map(_is_of, value, each))
    if kind in (int, float) and isinstance(value, bool):
        return False
    wanted = KINDS[kind][0] if kind in KINDS else kind
    return not isinstance(wanted, type) or isinstance(value, wanted)


def _named(kind: Any) -> str:
    within, parts = get_origin(kind), get_args(kind)
    if within in (Union, UnionType):
        return " or ".join(map(_named, parts))
    if within is Literal:
        return f"one of {', '.join(parts)}"
    if within is Mapping:
        return f"a mapping of {_named(parts[0])} to {_named(parts[1])}"
    if within in (tuple, list):
        if within is list or parts[-1] is ...:
            return f"a {within.__name__}, each {_named(parts[0])}"
        return f"a tuple of {' and '.join(map(_named, parts))}"
    if kind is type(None):
        return "None"
    return KINDS[kind][1] if kind in KINDS else f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"


def check(place: str, value: float, lowest: float, highest: float) -> None:
    """Raises: ExperimentError."""
    if not lowest <= value <= highest:
        raise ExperimentError(f"{place} is {value}, expected {lowest} to {highest}")


def check_each(place: str, values: NDArray[Any], right: NDArray[np.bool_], expected: str) -> None:
    """Raises: ExperimentError, with the first value that is not right."""
    if not right.all():
        at = int(np.argmin(right))
        raise ExperimentError(f"{place}[{at}] is {values[at]}, expected {expected}")


def check_whole(place: str, values: NDArray[Any], count: int | None, of: str) -> None:
    """So many whole numbers in an array of one dimension, one for each of what `of` says; None: any number.

    Raises: ExperimentError."""
    if not (isinstance(values, np.ndarray) and values.ndim == 1 and np.issubdtype(values.dtype, np.integer)):
        kind = f"{values.ndim}-D of {values.dtype}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"
        raise ExperimentError(f"{place} is {kind}, expected a 1-D array of whole numbers")
    if count is not None and len(values) != count:
        raise ExperimentError(f"{place} has {len(values)} values for {count} {of}")


def check_ascending(place: str, values: NDArray[Any], most: int) -> None:
    """From 0 on, none less than the one before. Raises: ExperimentError."""
    right = (values >= 0) & (values <= most)
    right[1:] &= values[1:] >= values[:-1]
    check_each(place, values, right, f"0 to {most}, and no less than the one before")
