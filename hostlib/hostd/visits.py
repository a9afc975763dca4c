"""Other users' network namespaces, each visited in its turn: what one of them costs or refuses is its own affair.

A user can make as many namespaces, and interfaces in them, as he likes. Work is bounded by time, and whose turn did not
come is first the next time: what he gains is that his own wait.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from hostlib.hostd.devices import OWN, within
from hostlib.hostd.interfaces import DeviceError

ROUND_S = 1.0
"""At most, in all namespaces together."""
NAMESPACE_S = 0.25
"""At most, in one; looked at between two interfaces."""
AGAIN_S = 10.0
"""From one visit to the next."""
SHOWN = 3


class Visits:
    """What each namespace's last good visit gave, and why the others gave nothing."""

    def __init__(self) -> None:
        self._due: dict[int, float] = {}
        self.given: dict[int, dict[str, str]] = {}
        self.refused: dict[int, str] = {}

    def go(self, found: Mapping[int, Path], act: Callable[[float], dict[str, str]]) -> None:
        """Has `act(until)` done in those whose turn it is; never raises."""
        now = time.monotonic()
        for table in (self._due, self.given, self.refused):
            for number in table.keys() - found.keys():
                del table[number]
        for number in found:
            self._due.setdefault(number, now)
        for number in sorted((number for number in found if self._due[number] <= now), key=self._due.__getitem__):
            start = time.monotonic()
            if start >= now + ROUND_S:
                return
            self._due[number] = start + AGAIN_S
            try:
                self.given[number] = within(found[number], partial(_act_in, number, act, start + NAMESPACE_S))
                self.refused.pop(number, None)
            except Exception as error:
                self.refused[number] = str(error) or type(error).__name__

    def describe(self) -> str:
        """Whose packets may be left as they are; "" where all is well."""
        if not self.refused:
            return ""
        shown = [f"net:[{number}] ({why})" for number, why in list(self.refused.items())[:SHOWN]]
        rest = len(self.refused) - len(shown)
        return f"; left as they are: {', '.join(shown)}{f' and {rest} more' if rest else ''}"


def _act_in(number: int, act: Callable[[float], dict[str, str]], until_s: float) -> dict[str, str]:
    if OWN.stat().st_ino != number:  # the process by which it was found has left it
        raise DeviceError("its process left it")
    return act(until_s)
