"""Means over seeds with their 95 % interval (Student's t)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Of a number of values (one more than the degrees of freedom)."""


def over_seeds(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the interval (NaN of one seed)."""
    n = len(values)
    half = T95.get(n, 2.2) * float(np.std(values, ddof=1)) / n**0.5 if n > 1 else float("nan")
    return float(np.mean(values)), half


def shown(value: float, half: float, digits: int = 2) -> str:
    """As in a table."""
    return f"{value:.{digits}f}" if np.isnan(half) else f"{value:.{digits}f} +- {half:.{digits}f}"
