"""Every configuration leaf of a switch intent, once: name, type, range and default.

`switch` checks its values by this table, `gnmi` and `config_db` read and write by it. The two YANG modules say the same
in their own words; the tests hold every leaf of both against the table. A leaf is called as its field is: with `-` for
`_` in qclimb.yang, as it stands in sonic-qclimb.yang.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, get_args

from .checks import UINT32_MAX, UINT64_MAX, ErrorType, decimal, fraction, integer, required, sequence, shown, span, text
from .errors import IntentError
from .policy import MAX_PRIORITIES
from .sonic_ranges import DYNAMIC_TH, THRESHOLD

AdminState = Literal["enabled", "disabled"]
Tier = Literal["leaf", "spine"]
BALANCED = "balanced"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
PORT = r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}"
LEAST_TH, LARGEST_TH = DYNAMIC_TH.lowest, DYNAMIC_TH.highest
"""of a BUFFER_PROFILE's dynamic_th"""
LEAST_ECN, LARGEST_ECN = 1, THRESHOLD.highest
"""of a WRED_PROFILE's thresholds, bytes"""
SHARE_DIGITS = 9
"""of a share on the wire (decimal64)"""


NOT_OURS = {3: "lossless", 4: "lossless", 46: "expedited forwarding", 48: "routing protocols"}
"""DSCPs that SONiC's usual maps give queues of their own: no class has them. qclimb.yang says so too; sonic-qclimb.yang
takes them, as SONiC checks all of CONFIG_DB at each patch, and an earlier version may have stored one"""


class Kind:
    """A type of leaves. `place` begins each refusal (IntentError)."""

    def checked(self, value: Any, place: str) -> Any:
        """The value as a field holds it."""
        raise NotImplementedError

    def from_json(self, value: Any, place: str) -> Any:
        """The value of a leaf in JSON_IETF (RFC 7951)."""
        return self.checked(value, place)

    def from_text(self, value: Any, place: str) -> Any:
        """The value of a field of CONFIG_DB: text in redis, typed where it came through JSON."""
        return self.checked(value, place)

    def to_json(self, value: Any) -> Any:
        """The leaf in JSON_IETF."""
        return value

    def to_text(self, value: Any) -> str:
        """The field in CONFIG_DB."""
        return str(value)


@dataclass(frozen=True)
class Whole(Kind):
    """An integer. In JSON_IETF one of 64 bits is a string; numbers are taken too, since people write them."""

    lowest: int
    highest: int

    @property
    def is_wide(self) -> bool:
        """Of 64 bits."""
        return self.highest > UINT32_MAX

    def checked(self, value: Any, place: str) -> int:
        """An int in the range."""
        return integer(value, place, self.lowest, self.highest, IntentError)

    def from_json(self, value: Any, place: str) -> int:
        """Of decimal digits where it is wide."""
        return self.from_text(value, place) if self.is_wide else self.checked(value, place)

    def from_text(self, value: Any, place: str) -> int:
        """Of decimal digits, or a number."""
        return decimal(value, place, self.lowest, self.highest, IntentError)

    def to_json(self, value: Any) -> Any:
        """Decimal digits where it is wide."""
        return str(value) if self.is_wide else value


@dataclass(frozen=True)
class Narrowed(Whole):
    """An integer of which earlier versions took, and stored, more.

    A stored one above the range is read as the largest in it (`from_text`, `from_stored`), so that what stands can be
    read, replaced and taken away; a new one is refused. sonic-qclimb.yang takes both, as SONiC checks all of CONFIG_DB
    at each patch.
    """

    stored_highest: int

    @property
    def is_wide(self) -> bool:
        """As its leaf is in YANG."""
        return self.stored_highest > UINT32_MAX

    def from_json(self, value: Any, place: str) -> int:
        """Of today's range."""
        if not self.is_wide:
            return self.checked(value, place)
        return decimal(value, place, self.lowest, self.highest, IntentError)

    def from_text(self, value: Any, place: str) -> int:
        """Of the range that was ever stored."""
        with suppress(IntentError):
            if decimal(value, place, self.highest + 1, self.stored_highest, IntentError):
                return self.highest
        return decimal(value, place, self.lowest, self.highest, IntentError)

    def from_stored(self, value: Any) -> Any:
        """JSON_IETF of today for that of an earlier version; what no version took is left as it is."""
        try:
            return self.to_json(self.from_text(value, ""))
        except IntentError:
            return value

    def narrowing(self, value: Any, place: str) -> str:
        """What is said where a stored value is read as another; else empty."""
        try:
            return (
                ""
                if self.from_text(value, place) == int(value)
                else f"{place} is {shown(value)}, expected "
                + (f"{span(self.lowest, self.highest)}: taken as {self.highest}")
            )
        except IntentError:
            return ""


class Dscp(Whole):
    """A DSCP that may be ours."""

    def checked(self, value: Any, place: str) -> int:
        """Of 0..63, less those that SONiC gives to something else."""
        return our_dscp(value, place, IntentError)

    from_json = checked

    def from_text(self, value: Any, place: str) -> int:
        """Of decimal digits, or a number."""
        return self.checked(super().from_text(value, place), place)


@dataclass(frozen=True)
class Share(Kind):
    """A part of a whole, in [0, 1], rounded to nine digits, so that the sum of a thousand is right within 1e-6."""

    least: float = 0.0

    def checked(self, value: Any, place: str) -> float:
        """A float of nine digits."""
        if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= 1):  # refuses NaN too
            raise IntentError(f"{place} is {shown(value)}, expected a number in [0, 1]")
        share = round(float(value), SHARE_DIGITS)
        if share < self.least:
            raise IntentError(f"{place} is {shown(value)}, expected more, at least {self.least:.{SHARE_DIGITS}f}")
        return share

    def from_json(self, value: Any, place: str) -> float:
        """Of a decimal64, a string, or a number; not rounded."""
        return fraction(value, place, SHARE_DIGITS, self.least, IntentError)

    from_text = from_json

    def to_json(self, value: Any) -> str:
        """All nine digits."""
        return f"{value:.{SHARE_DIGITS}f}"

    to_text = to_json


@dataclass(frozen=True)
class Text(Kind):
    """Text that matches the whole of a pattern."""

    pattern: str

    def checked(self, value: Any, place: str) -> str:
        """The text."""
        return text(value, place, self.pattern, IntentError)


@dataclass(frozen=True)
class Choice(Kind):
    """One of some words."""

    words: tuple[str, ...]

    def checked(self, value: Any, place: str) -> str:
        """The word."""
        if value not in self.words:
            raise IntentError(f"{place} is {shown(value)}, expected {' or '.join(map(repr, self.words))}")
        return str(value)


class Ports(Kind):
    """A tuple of names of ports, each once; joined by commas in CONFIG_DB."""

    def checked(self, value: Any, place: str) -> tuple[str, ...]:
        """The tuple."""
        if not isinstance(value, tuple):
            raise IntentError(f"{place} is {shown(value)}, expected a tuple")
        before = set[str]()
        for index, one in enumerate(value):
            text(one, f"{place}[{index}]", PORT, IntentError)
            if one in before:
                raise IntentError(f"{place}[{index}] is {one!r}, expected each port once")
            before.add(one)
        return value

    def from_json(self, value: Any, place: str) -> tuple[str, ...]:
        """Of an array."""
        return self.checked(tuple(sequence(value, place, IntentError)), place)

    def from_text(self, value: Any, place: str) -> tuple[str, ...]:
        """Of "a,b" as redis has it, or a list as ConfigDBConnector has it."""
        if isinstance(value, str):
            return self.checked(tuple(value.split(",")) if value else (), place)
        if isinstance(value, list | tuple):
            return self.checked(tuple(value), place)
        raise IntentError(f"{place} is {shown(value)}, expected names joined by commas, or a list of them")

    def to_json(self, value: Any) -> list[str]:
        """An array."""
        return list(value)

    def to_text(self, value: Any) -> str:
        """Joined by commas."""
        return ",".join(value)


@dataclass(frozen=True)
class Leaf:
    """One leaf.

    default     what its absence means; None: nothing
    is_told     it is written even where it has its default
    """

    field: str
    kind: Kind
    default: Any = None
    is_mandatory: bool = False
    is_told: bool = False

    @property
    def name(self) -> str:
        """In qclimb.yang."""
        return self.field.replace("_", "-")

    def is_written(self, value: Any) -> bool:
        """Whether a value goes on the wire."""
        return value is not None and (self.is_told or value != self.default)


INTENT = (
    Leaf("generation", Whole(0, UINT64_MAX), is_mandatory=True),
    Leaf("admin_state", Choice(get_args(AdminState)), "disabled", is_told=True),
    Leaf("ports", Ports(), ()),
    Leaf("ecn_min_bytes", Narrowed(LEAST_ECN, LARGEST_ECN, UINT64_MAX)),
    Leaf("ecn_max_bytes", Narrowed(LEAST_ECN, LARGEST_ECN, UINT64_MAX)),
    Leaf("unpinned_dscp", Dscp(0, 63)),
    Leaf("tier", Choice(get_args(Tier)), "leaf"),  # switches of before know no other
)
PRIORITY = Leaf("priority", Whole(0, MAX_PRIORITIES - 1), is_mandatory=True)
"""the key of a class"""
CLASS = (
    Leaf("dscp", Dscp(0, 63), is_mandatory=True),
    Leaf("queue", Whole(0, 7), is_mandatory=True),
    Leaf("path", Text(NAME), BALANCED, is_told=True),
    Leaf("threshold_bytes", Whole(0, UINT64_MAX - 1), 0, is_told=True),
    Leaf("dynamic_th", Narrowed(LEAST_TH, LARGEST_TH, 8)),
    Leaf("max_share", Share(10**-SHARE_DIGITS)),
    Leaf("foretold_share", Share()),
)
SHARES = tuple(leaf for leaf in CLASS if isinstance(leaf.kind, Share))
SPINE = Leaf("name", Text(NAME), is_mandatory=True)
"""the key of a path"""
PATH = (Leaf("share", Share(), is_mandatory=True),)


def our_dscp(value: object, place: str, error: ErrorType) -> int:
    """`value` as a DSCP that SONiC gives to nothing else."""
    found = integer(value, place, 0, 63, error)
    if found in NOT_OURS:
        free = ", ".join(_spans(dscp for dscp in range(64) if dscp not in NOT_OURS))
        raise error(f"{place} is {found}, expected an integer in {free}: switches keep {found} for {NOT_OURS[found]}")
    return found


def _spans(ascending: Iterable[int]) -> Iterator[str]:
    for _, group in groupby(enumerate(ascending), lambda each: each[1] - each[0]):
        run = [dscp for _, dscp in group]
        yield str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}"


def check(value: object, leaves: Iterable[Leaf], place: str = "") -> None:
    """Refuse what a field of a frozen `value` must not be, and set it as it is held. `place` goes before its name."""
    for leaf in leaves:
        told = getattr(value, leaf.field)
        if told is not None or leaf.is_mandatory or leaf.default is not None:
            object.__setattr__(value, leaf.field, leaf.kind.checked(told, f"{place}{leaf.field}"))


def from_json(leaves: Iterable[Leaf], found: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Fields of the leaves in a JSON object at a data path; a mandatory one must be there."""
    return {leaf.field: _read(leaf, found, leaf.name, leaf.kind.from_json, place, "/") for leaf in leaves}


def from_row(leaves: Iterable[Leaf], row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Fields of the leaves in a row; a mandatory one must be there."""
    return {leaf.field: _read(leaf, row, leaf.field, leaf.kind.from_text, place, " ") for leaf in leaves}


def _read(
    leaf: Leaf, found: Mapping[str, Any], name: str, reading: Callable[[Any, str], Any], place: str, between: str
) -> Any:
    if name in found:
        return reading(found[name], f"{place}{between}{name}")
    return required(found, name, place, IntentError) if leaf.is_mandatory else leaf.default


def to_json(leaves: Iterable[Leaf], value: object) -> dict[str, Any]:
    """The leaves of a value's fields, as far as they are told."""
    told = ((leaf, getattr(value, leaf.field)) for leaf in leaves)
    return {leaf.name: leaf.kind.to_json(one) for leaf, one in told if leaf.is_written(one)}


def to_row(leaves: Iterable[Leaf], value: object) -> dict[str, str]:
    """The row of a value's fields, as far as they are told."""
    told = ((leaf, getattr(value, leaf.field)) for leaf in leaves)
    return {leaf.field: leaf.kind.to_text(one) for leaf, one in told if leaf.is_written(one)}
