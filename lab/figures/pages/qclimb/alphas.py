"""A grid by both of the values with which DCTCP's alpha may begin: 1 (RFC 8257, Linux) and 0 (ns-2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.figures.grid import Grid
from lab.figures.page import Points, Runs, Scale, Story
from lab.figures.points import AnyExperiment
from lab.sim import Experiment, Tcp

ALPHAS = (1.0, 0.0)
PANELS_MAX = 4
"""A grid of more is drawn by the first alone; the table has both."""
SAID = (
    "DCTCP's alpha (the engine's `dctcp_alpha`) begins at 1, as in RFC 8257 and Linux, or at 0, near which ns-2's "
    "does, which PIAS and pFabric used (docs/results/dctcp.md: 60/1024). The column `alpha` says which; the quick "
    "scale has 1 alone. Hosts' own ports mark as the leaves' do."
)


def begins_at(alpha: float, experiment: AnyExperiment) -> AnyExperiment:
    """The same experiment with DCTCP's alpha from there on; unchanged where nothing in it is DCTCP."""
    if isinstance(experiment, Experiment) and isinstance(experiment.scheme, Tcp) and experiment.scheme.dctcp:
        return replace(experiment, scheme=replace(experiment.scheme, dctcp_alpha=alpha))
    return experiment


@dataclass(frozen=True)
class ByAlpha:
    """`grid` twice: a table with both, plots of both, the claims by 1, and those that 0 judges otherwise."""

    grid: Grid

    def runs(self, scale: Scale) -> Runs:
        """The grid's points by each alpha; what has no DCTCP is the same experiment twice, which is run once."""
        points = self.grid.runs(scale)
        return {(alpha, *key): begins_at(alpha, point) for alpha in _of(scale) for key, point in points.items()}

    def tell(self, scale: Scale, points: Points) -> Story:
        """Both stories as one."""
        stories = {alpha: self.grid.tell(scale, _part(points, alpha)) for alpha in _of(scale)}
        first, *others = stories.values()
        if not others:
            return first
        (second,) = others
        rows = [{"alpha": f"{alpha:g}", **row} for alpha, story in stories.items() for row in story.rows]
        drawn = stories if len(first.panels) <= PANELS_MAX else {ALPHAS[0]: first}
        panels = [
            replace(panel, title=f"{panel.title}, alpha {alpha:g}".removeprefix(", "))
            for alpha, story in drawn.items()
            for panel in story.panels
        ]
        changed = [
            f"Alpha from 0: {line}"
            for line, was in zip(second.verdicts, first.verdicts, strict=True)
            if _outcome(line) != _outcome(was)
        ]
        rest = len(first.verdicts) - len(changed)
        lines = [*first.verdicts, *changed]
        if changed and rest:
            lines.append(f"Alpha from 0: the other {rest} lines come to the same.")
        verdict = f"alpha from 1: {first.verdict} Alpha from 0: {second.verdict}"
        if first.verdict == second.verdict:
            verdict = f"by either alpha {first.verdict}"
        return Story(rows, panels, lines, verdict)


def _of(scale: Scale) -> tuple[float, ...]:
    return ALPHAS[:1] if scale.name == "quick" else ALPHAS


def _part(points: Points, alpha: float) -> Points:
    return {key[1:]: point for key, point in points.items() if key[0] == alpha}


def _outcome(line: str) -> str:
    """What a claim's sentence ends with, without how near it came; all of any other sentence."""
    head, colon, end = line.rpartition(": ")
    return end.partition(",")[0].rstrip(".") if colon and ": here " in head else line
