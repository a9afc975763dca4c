"""Whether the numbers of a comparison can be trusted: sentences on what was not as it should be."""

from __future__ import annotations

from collections.abc import Iterable

from lab.workload.passes import LATE_US, PassResult

LEAST_IDLE_SHARE = 0.05
MOST_LATE_SHARE = 0.01


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


def all_trouble(results: Iterable[PassResult]) -> list[str]:
    """Of several passes."""
    return [sentence for result in results for sentence in trouble(result)]
