"""How the messages of a service tell their own size: rules, how well each did, and what is to be done with it.

Values only: `lengthfile` knows the files, hostlib/hostd learns, the orchestrator shares. No byte of a message stands in
any of them: a rule is where a number stands, and what is to be added to it (length.h).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Self

from .checks import UINT16_MAX, UINT64_MAX, boolean, integer, mapping, only_known, required, shown
from .errors import LengthError
from .text import check_printable, replace_unprintable

WIDTHS = (2, 3, 4, 8)
HEAD_BYTES = 64
CONSTANT_MOST_BYTES = 4096
PROVEN_FLOWS, HOLDS_SHARE, PROVEN_EXACT_SHARE = 8, 0.97, 0.25
EXACT_FLOWS, EXACT_SHARE = 1_000, 0.999
MOST_FLOWS = 4_096
"""A score that has so many is halved: what comes then counts more than what was."""


@dataclass(frozen=True)
class PortRange:
    """Ports that the kernel chooses for whoever asks for none, both ends among them (Linux: ip_local_port_range).

    A program gets another one with each start, so that its services there are one, known by port 0.
    """

    first: int = 32_768
    last: int = UINT16_MAX

    def __post_init__(self) -> None:
        integer(self.first, "first", 1, UINT16_MAX, LengthError)
        integer(self.last, "last", self.first, UINT16_MAX, LengthError)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """As Linux tells it, two numbers; what is none gives Linux's default and above."""
        try:
            first, last = map(int, text.split())
            return cls(first, last)
        except (ValueError, LengthError):
            return cls()

    def service_port(self, port: int) -> int:
        """The port by which a service is known."""
        return 0 if self.first <= port <= self.last else port


@dataclass(frozen=True, order=True)
class Service:
    """Who sends: a program, as the side that accepted (role 1) or connected (0), with the listening side's port.

    `program` as in a record, at most 15 bytes. Port 0: all of the kernel's choice (PortRange).
    """

    program: str
    role: int
    port: int

    def __post_init__(self) -> None:
        if not 1 <= len(check_printable(self.program, "program", LengthError).encode()) <= 15:
            raise LengthError(f"program is {shown(self.program)}, expected a name of 1 to 15 bytes")
        integer(self.role, "role", 0, 1, LengthError)
        integer(self.port, "port", 0, UINT16_MAX, LengthError)

    @property
    def name(self) -> str:
        """As the orchestrator's paths have it: PROGRAM:ROLE:PORT."""
        return f"{self.program}:{'accepts' if self.role else 'connects'}:{self.port}"

    @classmethod
    def named(cls, name: str) -> Self:
        """The service of `name`; raises LengthError."""
        program, _, rest = name.rpartition(":")[0].rpartition(":")
        port = name.rpartition(":")[2]
        if rest not in ("accepts", "connects") or not (port.isascii() and port.isdigit() and len(port) <= 5):
            raise LengthError(f"service is {shown(name)}, expected PROGRAM:accepts:PORT or PROGRAM:connects:PORT")
        return cls(program, int(rest == "accepts"), int(port))


@dataclass(frozen=True, order=True)
class LengthRule:
    """size = the number of `width` bytes at `offset` + constant_bytes; with a tag, only where it stands there."""

    offset: int
    width: int
    is_big_endian: bool = True
    constant_bytes: int = 0
    tag_offset: int | None = None
    tag: int | None = None

    def __post_init__(self) -> None:
        if type(self.width) is not int or self.width not in WIDTHS:
            raise LengthError(f"width is {shown(self.width)}, expected one of 2, 3, 4, 8")
        integer(self.offset, "offset", 0, HEAD_BYTES - self.width, LengthError)
        integer(self.constant_bytes, "constant_bytes", -CONSTANT_MOST_BYTES, CONSTANT_MOST_BYTES, LengthError)
        boolean(self.is_big_endian, "is_big_endian", LengthError)
        if (self.tag is None) != (self.tag_offset is None):
            raise LengthError("tag and tag_offset stand together, expected both or neither")
        if self.tag is not None:
            integer(self.tag, "tag", 0, 255, LengthError)
            integer(self.tag_offset, "tag_offset", 0, HEAD_BYTES - 1, LengthError)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """The rule of `to_json`; raises LengthError."""
        found = mapping(obj, "rule", LengthError)
        only_known(found, [field.name for field in fields(cls)], "rule", LengthError)
        for name in ("offset", "width"):
            required(found, name, "rule", LengthError)
        return cls(**found)

    def __str__(self) -> str:
        order = "big" if self.is_big_endian else "little"
        tag = "" if self.tag is None else f", where byte {self.tag_offset} is {self.tag}"
        return f"offset {self.offset}, {self.width} bytes, {order} endian, {self.constant_bytes:+d}{tag}"


class Use(StrEnum):
    """What the library does with a service's rule; the order is the number on the wire."""

    FORBIDDEN = "forbidden"  # no byte of the service is looked at
    TRIAL = "trial"  # told in records, no bound
    IN_FORCE = "in-force"

    @property
    def number(self) -> int:
        """`state` of the file's entries."""
        return list(Use).index(self)


@dataclass(frozen=True)
class Score:
    """Flows of which more was announced than their first write asked to send.

    exact    their size, and nothing else
    short    less than it: a lower bound that holds
    beyond   more than it: wrong
    """

    exact: int = 0
    short: int = 0
    beyond: int = 0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            integer(value, name, 0, UINT64_MAX, LengthError)

    @property
    def flows(self) -> int:
        """All of them."""
        return self.exact + self.short + self.beyond

    @property
    def is_wrong(self) -> bool:
        """Whether more was announced than came too often for a rule: above 3 %, and twice at least."""
        return self.beyond > max(1, (1 - HOLDS_SHARE) * self.flows)

    @property
    def is_proven(self) -> bool:
        """Whether a rule on trial may count: 97 % right as a lower bound, and often enough the whole size."""
        enough = self.flows >= PROVEN_FLOWS and self.exact >= PROVEN_EXACT_SHARE * self.flows
        return enough and self.beyond <= (1 - HOLDS_SHARE) * self.flows

    @property
    def is_exact(self) -> bool:
        """Whether what is announced may be an upper bound, too."""
        return self.flows >= EXACT_FLOWS and self.exact >= EXACT_SHARE * self.flows

    def plus(self, other: "Score") -> "Score":
        """Both together."""
        return Score(self.exact + other.exact, self.short + other.short, self.beyond + other.beyond)

    def aged(self) -> "Score":
        """The same, or half as heavy once it has MOST_FLOWS."""
        if self.flows < MOST_FLOWS:
            return self
        return Score(self.exact // 2, self.short // 2, self.beyond // 2)


@dataclass(frozen=True)
class Announced:
    """What is known of one service. rule None: HTTP/1.x alone, which needs none. pinned: by an operator."""

    service: Service
    rule: LengthRule | None
    use: Use
    score: Score = Score()
    is_exact: bool = False
    pinned: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.use, Use):
            raise LengthError(f"use is {shown(self.use)}, expected one of {', '.join(Use)}")
        for name in ("is_exact", "pinned"):
            boolean(getattr(self, name), name, LengthError)

    @property
    def asks_for_tags(self) -> bool:
        """Whether a rule was wrong of some messages, and libraries are asked what may tell their types."""
        return self.use is Use.TRIAL and self.rule is None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            **vars(self.service),
            "rule": None if self.rule is None else self.rule.to_json(),
            "use": self.use.value,
            "score": dict(vars(self.score)),
            "is_exact": self.is_exact,
            "pinned": self.pinned,
        }

    @classmethod
    def from_json(cls, obj: object) -> Self:
        """Of `to_json`; raises LengthError."""
        found = dict(mapping(obj, "announced", LengthError))
        known = ["program", "role", "port", "rule", "use", "score", "is_exact", "pinned"]
        only_known(found, known, "announced", LengthError)
        service = Service(*(required(found, name, "announced", LengthError) for name in ("program", "role", "port")))
        rule, use = found.get("rule"), found.get("use", Use.IN_FORCE.value)
        if use not in list(Use):
            raise LengthError(f"use is {shown(use)}, expected one of {', '.join(Use)}")
        score = mapping(found.get("score", {}), "score", LengthError)
        only_known(score, [field.name for field in fields(Score)], "score", LengthError)
        return cls(
            service,
            None if rule is None else LengthRule.from_json(rule),
            Use(use),
            Score(**score),
            found.get("is_exact", False),
            found.get("pinned", False),
        )

    @classmethod
    def from_kept(cls, obj: object) -> Self:
        """Of `to_json` as earlier versions kept and told it, with any name; raises LengthError."""
        found = mapping(obj, "announced", LengthError)
        program = found.get("program")
        return cls.from_json({**found, "program": replace_unprintable(program)} if isinstance(program, str) else found)

    def scored(self, score: Score) -> "Announced":
        """The same with another score."""
        return replace(self, score=score)


def by_service(found: object, read: Callable[[object], Announced] = Announced.from_json) -> dict[Service, Announced]:
    """A list of `to_json` by service, the last of several, each as `read`; raises LengthError."""
    if not isinstance(found, list) or len(found) > UINT16_MAX:
        raise LengthError(f"lengths is {shown(found)}, expected a list of at most {UINT16_MAX}")
    return {each.service: each for each in map(read, found)}


def summary(found: Mapping[Service, Announced]) -> str:
    """One line for a terminal."""
    uses = [each.use for each in found.values()]
    told = [f"{uses.count(use)} {use.value.replace('-', ' ')}" for use in reversed(Use) if use in uses]
    return ", ".join(told) or "none"
