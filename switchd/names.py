"""What a fresh name of ours differs by."""

import time

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Tags:
    """A new one each time, across restarts, too: the time in milliseconds, in [0-9a-z]."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        """The next one."""
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        number, text = self._last, ""
        while number:
            number, digit = divmod(number, 36)
            text = _DIGITS[digit] + text
        return text
