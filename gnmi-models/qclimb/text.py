"""Text from outside: which characters a name may hold, and how any text becomes safe to print.

Refused are characters that can't be stored or sent (lone surrogates, NUL), that steer a terminal (C0, DEL, C1), that
break a line, and that reorder or hide what stands beside them (bidirectional controls, zero-width characters, tags:
Unicode TR 36, section 2.5). The set is fixed, not `str.isprintable`'s, which differs between Python's releases: what
a host takes for a name, the orchestrator takes, too.
"""

import re

from .checks import ErrorType, shown

UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000e0000-\U000e0fff]"
)
EXPECTED = "text without control, bidirectional, zero-width and surrogate characters"


def printable(text: str) -> str:
    r"""`text` as one line for terminals, logs and pages; what a name may not hold is escaped, as `\x1b` or `\u202e`."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def replace_unprintable(text: str) -> str:
    """`text` with "?" in place of each character that a name may not hold; of the same length."""
    return UNPRINTABLE.sub("?", text)


def check_printable(value: object, place: str, error: ErrorType) -> str:
    """`value` as text that can be stored, sent and printed as it is."""
    if not isinstance(value, str) or UNPRINTABLE.search(value):
        raise error(f"{place} is {shown(value)}, expected {EXPECTED}")
    return value
