"""Flows one at a time on the idle fabric: what slowdowns are over, and whether the machine carries the fabric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.workload.alone import Alone, paced_us, packets_of
from lab.workload.ground import Ground
from lab.workload.passes import PassResult, run_pass
from lab.workload.programs import WorkloadError
from lab.workload.services import service
from lab.workload.trace import Flow, Trace

REPEATS = {500: 24, 2_000: 24, 5_000: 24, 50_000: 6, 1_500_000: 2}
"""Flows of each size in bytes, within a rack and as many between racks: of one packet, two, some, many."""
GAP_US = 10_000
QUARTILE = 25
"""What counts of a size's flows, in per cent: what else the machine does holds flows up, and makes none faster. On two
busy cores the median of 5 KB was up to 1.8 times this."""
LEAST_SHARE = 0.97


@dataclass(frozen=True)
class Calibration:
    """What flows alone on the idle fabric took."""

    alone: Alone
    fct_us: Mapping[int, Mapping[int, float]]
    """The lower quartile, by number of links, then by size in bytes."""
    bulk_share: float
    """Rate of the largest flows over what links' rates allow."""

    @property
    def honest(self) -> bool:
        """Whether one flow alone reaches its link's rate: else the machine is too busy, or something is wrong."""
        return self.bulk_share >= LEAST_SHARE

    @property
    def verdict(self) -> str:
        """One sentence."""
        got = f"one flow alone reaches {self.bulk_share:.1%} of its link's rate"
        if self.honest:
            return f"{got}: the machine carries the fabric."
        return f"{got}: THIS MACHINE IS TOO BUSY TO BE HONEST, do not quote these numbers."

    @property
    def times(self) -> str:
        """`fct_us` as text, by size."""
        by_size = {size: [found[size] for found in self.fct_us.values()] for size in next(iter(self.fct_us.values()))}
        return ", ".join(
            f"{size:,} B {' and '.join(f'{us / 1000:.3g}' for us in each)} ms" for size, each in by_size.items()
        )


def calibrate(ground: Ground, folder: Path) -> Calibration:
    """Runs flows one at a time between the first host and another, within its rack and in another rack."""
    first, *others = ground.hosts
    pair_of = {len(ground.path_rates_bps(other, first)): (first, other) for other in others}
    flows: list[Flow] = []
    time_us = 0
    for size, client, server in _in_turn(pair_of.values()):
        flows.append(Flow(len(flows) + 1, time_us, "search", client, server, size))
        time_us += GAP_US + int(size * 8 * 1.3 / ground.host_rate_bps * 1e6)
    trace = Trace(tuple(flows), {"seconds": f"{time_us / 1e6:.6f}"})
    return calibration_of(run_pass(ground, trace, "idle", folder / "idle", services=[service("search")]), ground)


def _in_turn(pairs: Iterable[tuple[str, str]]) -> Iterable[tuple[int, str, str]]:
    """Size and hosts of each flow; all sizes and pairs take turns, so that a disturbance meets few flows of each."""
    pairs = list(pairs)
    for turn in range(max(REPEATS.values())):
        for size, repeats in REPEATS.items():
            if turn < repeats:
                yield from ((size, client, server) for client, server in pairs)


def calibration_of(result: PassResult, ground: Ground) -> Calibration:
    """What the flows of an idle pass tell.

    Raises: WorkloadError where none of a size ended.
    """
    taken: dict[tuple[float, ...], dict[int, list[float]]] = {}
    for size, client, server, fct_us in zip(result.bytes, result.client, result.server, result.fct_us, strict=True):
        taken.setdefault(tuple(ground.path_rates_bps(server, client)), {}).setdefault(size, []).append(fct_us)
    credit, shares = ground.alone.credit_bytes, []
    measured: dict[int, dict[int, float]] = {}
    handling: dict[int, dict[int, float]] = {}
    for rates, by_size in taken.items():
        ended = {size: [fct_us for fct_us in found if np.isfinite(fct_us)] for size, found in by_size.items()}
        if not all(ended.values()):
            raise WorkloadError(f"flows alone on the idle fabric did not end: {result.failures}")
        took = {size: float(np.percentile(found, QUARTILE)) for size, found in ended.items()}
        paced = {size: paced_us(size, rates, credit) for size in took}
        measured[len(rates)] = took
        handling[len(rates)] = {packets_of(size): us - paced[size] for size, us in took.items()}
        shares.append(paced[max(paced)] / took[max(paced)])
    return Calibration(Alone(credit, handling), measured, float(np.mean(shares)))
