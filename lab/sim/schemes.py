"""The table of schemes: a row a name. engine/schemes/*.h and engine/links/*.h say what each does, README.md how to add
one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from lab.sim.errors import ExperimentError
from lab.sim.homa import Homa
from lab.sim.pfabric import Pfabric
from lab.sim.rated import D3, FlowLevel, Pdq, Rcp
from lab.sim.scheme import Scheme
from lab.sim.tasks import SMALL_BYTES, Ictcp, Optax
from lab.sim.tcp import Tcp

ROWS: tuple[Scheme, ...] = (
    Pfabric(),
    Pfabric("pfabric-forecast", sizes_are_forecasts=True),
    Homa(),
    Homa("homa-forecast", sizes_are_forecasts=True),
    Tcp(dctcp=False),
    Tcp("dctcp"),
    Tcp("pias", tagging="pias"),
    Tcp("qclimb", tagging="qclimb", reordering="receiver", again_first=True),
    Tcp("qclimb-drain", tagging="qclimb", reordering="drain", again_first=True),
    Tcp("qclimb-tcp", tagging="qclimb", reordering="tcp"),
    Tcp("qclimb-ps", tagging="qclimb-ps", reordering="receiver", again_first=True),
    Tcp("qclimb-pp", tagging="qclimb-pp", reordering="receiver", again_first=True),
    Tcp("qclimb-fp", tagging="qclimb-fp", reordering="receiver", again_first=True),
    Tcp("deadline", tagging="deadline", reordering="drain", again_first=True),
    Pdq(),
    Pdq("pdq-basic", terminates=False, early_start_rtts=0, suppressed_probing_rtts=0),
    Pdq("pdq-es", terminates=False, suppressed_probing_rtts=0),
    Pdq("pdq-es-et", suppressed_probing_rtts=0),
    Pdq("mpdq", subflows=3),
    Rcp(),
    D3(),
    FlowLevel(),
    FlowLevel("flow-rcp", "rcp"),
    FlowLevel("flow-d3", "d3"),
    Ictcp(),
    Ictcp("ictcp-priority", tagging="task", thresholds_bytes=(SMALL_BYTES,)),
    Optax(),
)
"""qclimb-tcp: default TCP reordering (the paper's Fig. 15); -drain: qclimb's own; -ps, -pp, -fp: perfect sizes,
promotion by a point prediction, a priority fixed by one. PDQ's are its paper's variants: Basic, ES, ES+ET, (pdq) Full.
ictcp-priority: small tasks first, fair sharing among them and among the others; OPTAX's figures call it priority."""
NAMED: dict[str, Scheme] = {row.name: row for row in ROWS}
"""By name, as `--scheme` takes them."""


def scheme_named(name: str) -> Scheme:
    """A scheme with its default settings. Raises: ExperimentError."""
    if name not in NAMED:
        raise ExperimentError(f"scheme is {name!r}, expected one of {', '.join(NAMED)}")
    return NAMED[name]


def changed(scheme: Scheme, changes: Iterable[str]) -> Scheme:
    """The scheme with settings given as NAME=VALUE words. Raises: ExperimentError."""
    known = {field.name: field for field in fields(scheme)}
    found: dict[str, Any] = {}
    for change in changes:
        name, _, text = change.partition("=")
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else "."
            raise ExperimentError(f"scheme.{name}: {scheme.name} has no such setting{hint} Known: {', '.join(known)}")
        now = getattr(scheme, name)
        try:
            found[name] = _read(text, now)
        except ValueError:
            raise ExperimentError(f"scheme.{name} is {text!r}, expected something like {now!r}") from None
    return replace(scheme, **found)


def with_shares(scheme: Scheme, shares: Iterable[int]) -> Scheme:
    """The scheme with SONiC's `dynamic_th` of each queue, served first to last, or one for all; a queue may then hold
    2^dynamic_th times what is free of a port's buffer.

    Raises: ExperimentError.
    """
    if not isinstance(scheme, Tcp):
        raise ExperimentError(f"buffer_shares: {scheme.name} has no queues that share a buffer")
    return replace(scheme, dynamic_alpha=tuple(2.0**share for share in shares))


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
    return {field.name: getattr(scheme, field.name) for field in fields(scheme)}
