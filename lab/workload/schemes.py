"""The schemes that are compared in the fabric: each is a revision's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lab.scheduler import Scheduler
from lab.workload.services import SCALE

SLACK_BYTES = 100_000 // SCALE
"""QCLIMB's best slack beside its PIAS thresholds, 100 KB (NSDI'24, Fig. 27), to scale."""
SMALL_COFLOW_BYTES = -(-(1 << 20) // SCALE)
"""OPTAX's 1 MiB, to scale."""


@dataclass(frozen=True)
class Scheme:
    """One way to run the fabric; a revision's settings."""

    name: str
    title: str
    mode: str
    use_forest: bool = False
    use_footprint: bool = False
    use_lengths: bool = False
    """What the messages of the lab's own applications say of their size is their size: only to be used on purpose."""
    slack_bytes: int | None = None
    """None: the first threshold, as the orchestrator chooses."""
    priorities: int = 8
    dynamic_th: Literal["choose"] | tuple[int, ...] | None = None
    """Each queue's share of a port's buffer, served-first order; None: the platform's."""

    def revision(
        self,
        thresholds: str | list[int],
        load: float,
        label: str | None = None,
        model: int | None = None,
        port: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The body of a revision that this scheme runs by. `port`: what the choice of shares must know."""
        return {
            "priorities": self.priorities,
            "mode": self.mode,
            "thresholds": thresholds,
            "load": load,
            "label": label,
            "slack_bytes": self.slack_bytes,
            "small_coflow_bytes": SMALL_COFLOW_BYTES,
            "use_forest": self.use_forest,
            "use_footprint": self.use_footprint,
            "without_lengths": not self.use_lengths,
            "model": model if self.use_forest else None,
            "dynamic_th": self.dynamic_th,
            "port": port,
        }


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("tcp", "plain TCP", "observe"),
        Scheme("pias", "PIAS", "pias"),
        Scheme("qclimb", "QCLIMB", "qclimb", use_forest=True, use_footprint=True),
        Scheme("qclimb-no-forest", "QCLIMB without forest", "qclimb", use_footprint=True),
        Scheme("qclimb-no-footprint", "QCLIMB without footprint", "qclimb", use_forest=True),
        Scheme("qclimb-lengths", "QCLIMB, lengths too", "qclimb", True, True, use_lengths=True),
        Scheme("pias-shares", "PIAS, chosen shares", "pias", dynamic_th="choose"),
        Scheme("qclimb-shares", "QCLIMB, chosen shares", "qclimb", True, True, dynamic_th="choose"),
        Scheme("qclimb-paper-slack", "QCLIMB, slack 100 KB to scale", "qclimb", True, True, slack_bytes=SLACK_BYTES),
    )
}
BASE = "tcp"
BY_KERNEL = "-by-kernel"
"""Ends the name of a scheme whose programs are scheduled by hostd's kernel mode, without libqclimb.so."""


def name_by(scheme: str, by: str) -> str:
    """A scheme's name, with what schedules its programs where that is not the library."""
    return scheme + BY_KERNEL * (by == "kernel")


def by_of(name: str) -> Scheduler:
    """What schedules the programs of a scheme of that name."""
    return "kernel" if name.endswith(BY_KERNEL) else "library"


def schemes_of(names: Sequence[str]) -> list[Scheme]:
    """Schemes by name; ValueError names the unknown one."""
    unknown = [name for name in names if name not in SCHEMES]
    if unknown:
        raise ValueError(f"no scheme {unknown[0]!r}; known: {', '.join(SCHEMES)}")
    return [SCHEMES[name] for name in names]
