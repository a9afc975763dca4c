"""Whom the kernel mode serves, as the operator says it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scope:
    """Who is served: sockets opened in these cgroups (v2) or below, at these service ports (none: all)."""

    cgroups: tuple[Path, ...] = ()
    ports: tuple[int, ...] = ()
