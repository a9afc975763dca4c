"""The disciplines that the engine knows, as settings; engine/schemes/*.h says what each does.

`settings()` is what the engine is told; lab.sim.experiment adds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, ClassVar

from lab.sim.errors import ExperimentError

Settings = dict[str, int | str]


def check(place: str, value: float, lowest: float, highest: float) -> None:
    """Raises: ExperimentError."""
    if not lowest <= value <= highest:
        raise ExperimentError(f"{place} is {value}, expected {lowest} to {highest}")


@dataclass(frozen=True)
class Pfabric:
    """pFabric: priority drop, priority dequeue, minimal rate control. Defaults: YAPS's for 10G and a round trip of
    14.6 us (buffers of 24 packets, two bandwidth-delay products)."""

    name: ClassVar[str] = "pfabric"
    initial_window: int = 12
    """Packets."""
    max_window: int = 15
    """Packets."""
    timeout_us: float = 45.0
    buffer_bytes: int = 36_864
    """Of each port, hosts' ports too."""
    probe_after: int = 0
    """Timeouts in a row after which a flow sends headers only; 0: never (YAPS). The paper's authors use 5."""
    sender_sees_arrivals: bool = True
    """YAPS: what the receiver holds is known when a packet is to be sent again. False: by ACKs only."""
    sizes_are_forecasts: bool = False
    """Ranks come from the flows' forecasts, not from their sizes."""

    def __post_init__(self) -> None:
        check("scheme.initial_window", self.initial_window, 1, 10**6)
        check("scheme.max_window", self.max_window, self.initial_window, 10**6)
        check("scheme.timeout_us", self.timeout_us, 0.001, 10**7)
        check("scheme.buffer_bytes", self.buffer_bytes, 1, 10**12)
        check("scheme.probe_after", self.probe_after, 0, 10**6)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": self.name,
            "initial_window": self.initial_window,
            "max_window": self.max_window,
            "timeout_ps": round(self.timeout_us * 1e6),
            "buffer_bytes": self.buffer_bytes,
            "host_buffer_bytes": self.buffer_bytes,
            "probe_after": self.probe_after,
            "sender_sees_arrivals": int(self.sender_sees_arrivals),
            "sizes_are_forecasts": int(self.sizes_are_forecasts),
            "priorities": 1,
        }


Scheme = Pfabric


def scheme_named(name: str) -> Scheme:
    """A scheme with its default settings. Raises: ExperimentError."""
    known = {"pfabric": Pfabric}
    if name not in known:
        raise ExperimentError(f"scheme is {name!r}, expected one of {', '.join(known)}")
    return known[name]()


def changed(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """The scheme with settings given as NAME=VALUE words. Raises: ExperimentError."""
    known = {field.name: field for field in fields(scheme)}
    found: dict[str, Any] = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ExperimentError(f"scheme.{name}: {scheme.name} has no such setting{hint} Known: {', '.join(known)}")
        now = getattr(scheme, name)
        try:
            found[name] = _read(text, now)
        except ValueError:
            raise ExperimentError(f"scheme.{name} is {text!r}, expected something like {now!r}") from None
    return replace(scheme, **found)


def _read(text: str, like: object) -> object:
    """Text as the type of a value. Raises: ValueError."""
    if isinstance(like, bool):
        if text.lower() not in ("true", "false", "0", "1"):
            raise ValueError
        return text.lower() in ("true", "1")
    if isinstance(like, tuple):
        return tuple(int(part) for part in text.split(",") if part)
    if isinstance(like, str):
        return text
    return type(like)(text)  # type: ignore[call-arg]


def described(scheme: Scheme) -> dict[str, object]:
    """A scheme's name and settings, for tables and caches."""
    return {"name": scheme.name, **{field.name: getattr(scheme, field.name) for field in fields(scheme)}}
