"""Whether the numbers of a comparison can be trusted: sentences on what was not as it should be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from lab.workload.passes import LATE_US, PassResult

LEAST_IDLE_SHARE = 0.05
MOST_LATE_SHARE = 0.01
MOST_IDLE_GAP = 0.05
"""A scheme's own work explained 2 to 3 points of idle time; a wider gap was the machine's other work."""


def trouble(result: PassResult) -> list[str]:
    """What went wrong in a pass; empty when it is as it should be."""
    where = f"{result.scheme}, load {result.load:g}, seed {result.seed}"
    found = []
    if result.failures:
        reasons = ", ".join(f"{count} {reason}" for reason, count in result.failures.items())
        found.append(f"{where}: flows without an FCT: {reasons} of {len(result.id)}")
    if not result.idle_share >= LEAST_IDLE_SHARE:
        found.append(
            f"{where}: the machine was idle for only {result.idle_share:.1%} of the pass: too busy to be honest"
        )
    if not result.late_share <= MOST_LATE_SHARE:
        found.append(
            f"{where}: {result.late_share:.1%} of the flows began more than {LATE_US // 1000} ms after their time"
        )
    return found


def disturbed(results: Mapping[str, PassResult]) -> list[str]:
    """Schemes of one seed and load whose pass had clearly less idle time than the idlest: others took the machine."""
    idlest = max((result.idle_share for result in results.values()), default=0.0)
    return [name for name, result in results.items() if idlest - result.idle_share > MOST_IDLE_GAP]


def uneven(results: Mapping[str, PassResult]) -> list[str]:
    """What makes passes of one seed and load unlike beside their scheme: idle time, thresholds."""
    found = [
        f"{result.scheme}, load {result.load:g}, seed {result.seed}: idle for {result.idle_share:.1%} of the pass, "
        f"{MOST_IDLE_GAP * 100:g} points less than another scheme's or more: the machine was not alike for both"
        for result in (results[name] for name in disturbed(results))
    ]
    if len({tuple(result.settings.get("threshold_bytes", ())) for result in results.values()}) > 1:
        some = next(iter(results.values()))
        found.append(f"load {some.load:g}, seed {some.seed}: the schemes ran under different thresholds")
    return found


def all_trouble(results: Iterable[PassResult]) -> list[str]:
    """Of several passes."""
    return [sentence for result in results for sentence in trouble(result)]


def forests(results: Iterable[PassResult]) -> list[str]:
    """A sentence where passes that should share a forest used several: a resumed run trains a new one."""
    reports = [json.dumps(result.settings["model"], sort_keys=True) for result in results if "model" in result.settings]
    several = len(set(reports))
    return (
        [f"{len(reports)} passes used {several} forests, one each time hosts were started anew"] if several > 1 else []
    )


def under(result: PassResult, thresholds: Sequence[int] | None) -> bool:
    """Whether a stored pass ran under the thresholds that a resumed run goes on with; without any, it sets them."""
    return not thresholds or list(result.settings.get("threshold_bytes", thresholds)) == list(thresholds)
