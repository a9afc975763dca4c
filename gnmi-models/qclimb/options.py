"""Types of command options that several commands have."""

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A number in a range; click's own lets NaN in, and infinity where there is no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is no number, expected one in {self._describe_range()}", param, ctx)
        return found
