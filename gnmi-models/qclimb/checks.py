"""Checks at the edge: each returns the value as its type or raises with place, value and expectation.

Knows nothing of policies or intents; the caller says which error its readers expect.
"""

import json
import math
import re
import reprlib
from collections.abc import Collection, Mapping
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Any

from .errors import QclimbError

ErrorType = type[QclimbError]

UINT16_MAX = 2**16 - 1
UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
SHOWN_CHARACTERS = 80

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 2 * SHOWN_CHARACTERS
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = SHOWN_CHARACTERS // 3
_SHORT.maxlevel = 3


def integer(value: object, place: str, lowest: int, highest: int, error: ErrorType) -> int:
    """`value` as an int in [lowest, highest]; a bool, a float or a string is none."""
    if type(value) is not int or not lowest <= value <= highest:
        raise error(f"{place} is {shown(value)}, expected {span(lowest, highest)}")
    return value


def decimal(value: object, place: str, lowest: int, highest: int, error: ErrorType) -> int:
    """An integer that travels as a number or as decimal digits (RFC 7951 section 6.1, RFC 7950 9.2.1, CONFIG_DB)."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?0*[0-9]{1,20}", value):
        return integer(int(value), place, lowest, highest, error)
    return integer(value, place, lowest, highest, error)


def fraction(value: object, place: str, digits: int, lowest: float, error: ErrorType) -> float:
    """A decimal64 in [`lowest`, 1] (RFC 7950 section 9.3.1): decimal digits, or a number, as people write them.

    Nothing is rounded: more than `digits` digits after the point are refused, but for zeros.
    """
    is_number = type(value) is int or (isinstance(value, float) and math.isfinite(value))
    if not is_number and not (isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?", value)):
        raise error(f"{place} is {shown(value)}, expected a decimal number of at most {digits} digits after the point")
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)  # type: ignore[arg-type]
    if (least := Decimal(repr(lowest))) > exact or exact > 1:
        raise error(f"{place} is {shown(value)}, expected a number in [{f'{least:f}' if least else 0}, 1]")
    if exact != round(exact, digits):
        raise error(f"{place} is {shown(value)}, expected at most {digits} digits after the point")
    return float(exact)


def digits_of(value: float) -> str:
    """All digits of a number, as a decimal64 has them: without an exponent."""
    return f"{Decimal(repr(value)):f}"


def json_value(text: str | bytes, place: str, error: ErrorType) -> Any:
    """JSON without what readers understand differently: a member that is there twice, NaN, a number that a double
    does not hold (RFC 8259, sections 4 and 6)."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a member is there twice")
        return found

    def no_constant(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_constant, parse_float=_double)
    except (ValueError, RecursionError) as wrong:
        raise error(f"{place}: no JSON: {wrong}") from wrong


def _double(text: str) -> float:
    """Raises ValueError where the double is another number than the digits say."""
    value = float(text)
    try:
        is_exact = Decimal(text) == Decimal(repr(value))
    except InvalidOperation:  # an exponent of more than 18 digits
        is_exact = False
    if not is_exact:
        raise ValueError(f"{shown(text)} has more digits, or a larger exponent, than a double holds")
    return value


def boolean(value: object, place: str, error: ErrorType) -> bool:
    """`value` as true or false; 0 and 1 are neither."""
    if not isinstance(value, bool):
        raise error(f"{place} is {shown(value)}, expected true or false")
    return value


def text(value: object, place: str, pattern: str, error: ErrorType) -> str:
    """`value` as a string that matches the whole of `pattern`."""
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise error(f"{place} is {shown(value)}, expected text like {pattern}")
    return value


def mapping(value: object, place: str, error: ErrorType) -> Mapping[str, Any]:
    """`value` as an object with string keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise error(f"{place} is {shown(value)}, expected an object")
    return value


def sequence(value: object, place: str, error: ErrorType) -> list[Any]:
    """`value` as a list."""
    if not isinstance(value, list | tuple):
        raise error(f"{place} is {shown(value)}, expected a list")
    return list(value)


def only_known(found: Collection[str], known: Collection[str], place: str, error: ErrorType) -> None:
    """Refuses the first key of `found` that is not `known`, and names the known one that it may have been meant as."""
    for key in found:
        if key not in known:
            near = get_close_matches(key[:SHOWN_CHARACTERS], known, n=1, cutoff=0.5)
            meant = f", did you mean {near[0]!r}?" if near else f", expected one of {', '.join(sorted(known))}"
            raise error(f"{place} has the unknown key {shown(key)}{meant}")


def required(found: Mapping[str, Any], key: str, place: str, error: ErrorType) -> Any:
    """The value under `key`, which must be there."""
    if key not in found:
        raise error(f"{place} lacks {key!r}, expected a value for it")
    return found[key]


def shown(value: object) -> str:
    """`value` for a message: null, true and false as JSON and YAML have them; never longer than a line's end.

    The work is bounded, too, however long or deep the value is.
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    as_text = _SHORT.repr(value)
    return as_text if len(as_text) <= SHOWN_CHARACTERS else as_text[: SHOWN_CHARACTERS - 3] + "..."


def span(lowest: int, highest: int) -> str:
    """The range for a message, the widest bounds by their names."""
    names = {UINT32_MAX: "2^32-1", UINT64_MAX: "2^64-1", UINT64_MAX - 1: "2^64-2", 2**31 - 1: "2^31-1"}
    return f"an integer in {lowest}..{names.get(highest, highest)}"
