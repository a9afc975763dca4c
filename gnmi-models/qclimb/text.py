"""Text from outside: which characters a name may hold, and how any text becomes safe to print.

Refused are characters that can't be stored or sent (lone surrogates, NUL), that steer a terminal (C0, DEL, C1), that
break a line, and that reorder or hide what stands beside them (bidirectional controls, zero-width characters, tags:
Unicode TR 36, section 2.5). The set is fixed, not `str.isprintable`'s, which differs between Python's releases: what
a host takes for a name, the orchestrator takes, too.
"""

import logging
import re
from typing import Any

from .checks import ErrorType, shown

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
EXPECTED = "text without control, bidirectional, zero-width and surrogate characters"


def printable(text: str) -> str:
    r"""`text` as one line for terminals, logs and pages; what a name may not hold is escaped, as `\x1b` or `\u202e`."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def printable_json(value: Any) -> Any:
    """A value of JSON with `printable` for each text in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_json(each) for each in value]
    if isinstance(value, dict):
        return {printable(key): printable_json(each) for key, each in value.items()}
    return value


def replace_unprintable(text: str) -> str:
    """`text` with "?" in place of each character that a name may not hold; of the same length."""
    return UNPRINTABLE.sub("?", text)


def program_name(comm: bytes) -> str:
    """The name of `comm` as the kernel has it, 16 bytes of any kind: "?" in place of what no name may hold."""
    return replace_unprintable(comm.split(b"\0")[0][:15].decode("utf-8", "replace").replace("\ufffd", "?"))


def check_printable(value: object, place: str, error: ErrorType) -> str:
    """`value` as text that can be stored, sent and printed as it is."""
    if not isinstance(value, str) or UNPRINTABLE.search(value):
        raise error(f"{place} is {shown(value)}, expected {EXPECTED}")
    return value


class PrintableLines(logging.Formatter):
    """A log message is one line that can be printed; an exception's lines follow it."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        """Its lines."""
        return "\n".join(map(printable, super().formatException(ei).split("\n")))
