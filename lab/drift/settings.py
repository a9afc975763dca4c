"""The drift experiment's settings and their defaults, which are the command's, too."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DriftSettings:
    """What is sent, for how long, and how far the orchestrator may go."""

    on_drift: str = "rollout"
    flows_per_s: float = 350.0
    observe_s: float = 30.0
    """Recorded under plain TCP; then a model is trained and rolled out, while the traffic goes on."""
    before_s: float = 80.0
    """From time 0 to the change."""
    after_s: float = 120.0
    seed: int = 1
    trees: int | None = None
    """None: as many as the orchestrator chooses."""
    model_max_age_s: float = 30 * 86_400.0
    """Bounds of an older model are switched off."""
    hosts_per_leaf: int = 2
    prefix: str = "qdr"
    folder: Path = Path("lab-results/drift")
