"""Which parameters and examples of a test run in `make test`, and which only in `make test-system`."""

from collections.abc import Iterable
from itertools import islice

import pytest
from hypothesis import settings

USUAL_EXAMPLES = 25
"""Of a property at each run; conftest.py's profile "same"."""


def quick_first(values: Iterable[object], quick: int) -> list[object]:
    """Parameters of which the first `quick` are tried at each run, the others in `make test-system`."""
    rest = iter(values)
    now, later = list(islice(rest, quick)), (value if isinstance(value, tuple) else (value,) for value in rest)
    return [*now, *(pytest.param(*value, marks=pytest.mark.system) for value in later)]


def examples(usual: int) -> int:
    """Of a property that takes another number than most: `usual` at each run, more where the profile tries more."""
    return max(1, usual * settings().max_examples // USUAL_EXAMPLES)
