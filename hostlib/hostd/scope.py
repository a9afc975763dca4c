"""Whom the kernel mode serves, and where packets are marked, as the operator says it. Knows nothing of BPF."""

from dataclasses import dataclass
from pathlib import Path

NO_DEVICE = "none"
"""In place of a device: the tagger is at none, and the kernel mode marks by its sockets."""


@dataclass(frozen=True)
class Scope:
    """Who is served: sockets opened in these cgroups (v2) or below, at these service ports (none: all)."""

    cgroups: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()
