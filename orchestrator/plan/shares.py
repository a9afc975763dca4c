"""Which share of a port's buffer each queue may hold: the narrowest that no class of flows pays for. Pure.

Lossy profiles commonly let one queue hold 8/9 of a buffer (`dynamic_th` 3). Later queues then fill it, and what is
served first finds no place. Narrower shares for all queues but the last mend that; how narrow they may be depends on
sizes, thresholds, load and buffer, in ways that a formula did not foretell to within the 2 % that matter
(docs/results/buffers.md). So each candidate is simulated, and the one of the least mean slowdown is taken among those
under which no class's mean completion time grows by more than `MOST_WORSE`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import ThresholdError
from .sizes import SizeDistribution

Json = dict[str, Any]

CANDIDATES = (2, 1, 0)
"""Tried as dynamic_th of all queues but the last, which keeps the platform's: it holds large flows' windows. -1 and
shares of 1 for all queues were worse for some workload at each load."""
PLATFORM_TH = 3
MOST_WORSE = 1.02
LEAST_GAIN = 0.85
"""The mean slowdown must fall below this share of the platform's. Smaller gains did not come true: in the lab's fabric
0.94 was foretold, 1.00 came, and large flows paid 3 % (docs/results/buffers.md)."""
LEAST_FLOWS = 100
"""A class of fewer, over all seeds, decides nothing."""
SEEDS = 3
PACKETS = 3_000_000
LEAST_TIMEOUT_MS = 10.0
"""Of simulated hosts. Linux's 200 ms make each loss weigh more, and single ones decide a mean."""


@dataclass(frozen=True)
class Port:
    """What a revision must know of a port and of hosts to foretell losses."""

    buffer_bytes: int
    gbps: float
    dynamic_th: int = PLATFORM_TH
    """Of the platform's lossy profile."""
    initial_window: int = 10
    """Packets."""
    congestion_control: Literal["loss", "dctcp"] = "loss"


@dataclass(frozen=True)
class Shares:
    """What was chosen, and why."""

    dynamic_th: tuple[int | None, ...] | None
    """Of each queue in served-first order; None: the platform's."""
    reason: str
    foretold: list[Json] | None = None
    """Of each candidate: dynamic_th, its mean slowdown and each class's mean FCT over the platform's."""

    def to_json(self) -> Json:
        """As a revision has it."""
        return {"dynamic_th": self.dynamic_th, "reason": self.reason, "foretold": self.foretold}


def question(
    port: Port,
    sizes: SizeDistribution,
    threshold_bytes: Sequence[int],
    is_qclimb: bool,
    slack_bytes: int,
    load: float,
    mark_bytes: int | None,
) -> Json:
    """What the simulator is asked (lab/sim/shares.py); the platform's shares are the first set.

    Raises ThresholdError where DCTCP is to be simulated without marks.
    """
    if port.congestion_control == "dctcp" and mark_bytes is None:
        raise ThresholdError("port.congestion_control is dctcp, expected ecn_bytes beside it: who marks?")
    upto = sizes.upto
    last = len(threshold_bytes)
    sets = [[port.dynamic_th] * (last + 1)]
    sets += [[th] * last + [port.dynamic_th] for th in CANDIDATES if th < port.dynamic_th]
    return {
        "cdf": [
            [0.0, 0.0],
            *([float(size), float(share)] for size, share in zip(sizes.upper_bytes, upto, strict=True)),
        ],
        "threshold_bytes": [int(each) for each in threshold_bytes],
        "is_qclimb": is_qclimb,
        "slack_bytes": slack_bytes,
        "load": load,
        "buffer_bytes": port.buffer_bytes,
        "gbps": port.gbps,
        "initial_window": port.initial_window,
        "least_timeout_ms": LEAST_TIMEOUT_MS,
        "dctcp": port.congestion_control == "dctcp",
        "mark_bytes": mark_bytes or 0,
        "sets": sets,
        "seeds": SEEDS,
        "packets": PACKETS,
    }


def choose(answer: Sequence[Json]) -> Shares:
    """The best of the sets that the simulator tried, the first of which is the platform's."""
    base, *others = answer
    foretold = [_beside(base, each) for each in others]
    allowed = [each for each in foretold if all(ratio <= MOST_WORSE for ratio in each["fct"].values())]
    best = min(allowed, key=lambda each: float(each["slowdown"]), default=None)
    if best is None:
        worst = (
            {name: max(each["fct"].get(name, 0.0) for each in foretold) for name in base["flows"]} if foretold else {}
        )
        told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in worst.items() if ratio > MOST_WORSE)
        return Shares(None, f"the platform's: under each narrower set some class would be slower ({told})", foretold)
    if best["slowdown"] > LEAST_GAIN:
        return Shares(None, f"the platform's: the mean slowdown would be {best['slowdown']:.2f} of today's", foretold)
    narrow = tuple(best["dynamic_th"][:-1])
    reason = (
        f"foretold: the mean slowdown is {best['slowdown']:.2f} of the platform's, "
        + ", ".join(f"{name} {ratio:.2f}" for name, ratio in best["fct"].items())
        + " by mean completion time"
    )
    return Shares((*narrow, None), reason, foretold)


def _beside(base: Json, other: Json) -> Json:
    """A set beside the platform's, over the same flows."""
    fct = {
        name: _ratio(other["fct_us"][name], base["fct_us"][name])
        for name, flows in base["flows"].items()
        if flows >= LEAST_FLOWS
    }
    return {"dynamic_th": other["shares"], "slowdown": _ratio(other["slowdown"], base["slowdown"]), "fct": fct}


def _ratio(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float:
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)
