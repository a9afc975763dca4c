"""A spine is lost under real traffic, and comes back: what each spine carries meanwhile, and who decides what.

Programs under the library send the paper's traffic from one rack to the other. The link of the first spine goes down at
the leaf; the leaf lets its class fall back, the orchestrator rolls out thresholds and weights for the others; the link
comes back, and so does the revision for all. Beside it a connection of the first priority asks all the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lab.control.spines import class_states, share_states
from lab.experiment.plots import OF_SCHEME, OTHERS, svg_of
from lab.experiment.terminal import Teller
from lab.fabric import Fabric
from lab.fabric.commands import run_all
from lab.run.bigspine.outage import LEAF, SPINE, asking, event
from lab.run.bigspine.run import bring_into_force, uplink_bytes
from lab.run.bigspine.traffic import SCHEMES, receivers, topology_of, trace_of
from lab.run.settings import SpineLoss
from lab.workload.passes import run_pass
from lab.workload.testbed import up

SPINES, LOAD, SEED = 4, 0.6, 1
DOWN_AT_S, BACK_AT_S, SECONDS = 10.0, 25.0, 50.0
SERVE = ("--spine-down-s", "1", "--spine-up-s", "5")
"""The orchestrator's patience; it waits 30 s before it takes a spine in again unless told otherwise."""
EVERY_S = 0.1
STEP = 5
"""Samples between the two that a rate is taken from."""
NEAR_S = 10.0
"""Labels of events so near to each other stand above one another."""


@dataclass
class Timeline:
    """What was seen, in seconds from the first flow."""

    at_s: list[float] = field(default_factory=list)
    uplink_bytes: dict[str, list[int]] = field(default_factory=dict)
    """By spine, at each moment."""
    events: list[tuple[float, str]] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    """(when asked, seconds) of the first priority's requests."""
    flows: int = 0
    unfinished: int = 0
    error: str = ""
    begin: float = 0.0
    """By time.monotonic()."""


def watch(fabric: Fabric, seen: Timeline, begin: float, stop: threading.Event) -> None:
    """Samples the first leaf until told to stop, and writes down what changes there."""
    before: tuple[str, str] | None = None
    while not stop.wait(EVERY_S):
        now = time.monotonic() - begin
        seen.at_s.append(round(now, 3))
        for spine, queues in uplink_bytes(fabric).items():
            seen.uplink_bytes.setdefault(spine, []).append(sum(queues))
        pinned, shares = class_states(fabric, LEAF), share_states(fabric, LEAF)
        back = [str(number) for number, status in sorted(pinned.items()) if status == "fallen-back"]
        state = (
            f"priority {', '.join(back)} falls back" if back else "all classes pinned",
            f"{len(shares)} spines in force",
        )
        if before is not None:
            seen.events += [(round(now, 2), new) for old, new in zip(before, state, strict=True) if new != old]
        before = state


def lose(fabric: Fabric, seen: Timeline, begin: float, stop: threading.Event) -> None:
    """Takes the link down and brings it back, at their times."""
    for at, is_there, what in ((DOWN_AT_S, False, "goes down"), (BACK_AT_S, True, "is back")):
        if stop.wait(max(0.0, begin + at - time.monotonic())):
            return
        run_all(event(fabric, "link", is_there))
        seen.events.append((round(time.monotonic() - begin, 2), f"{SPINE}'s link {what}"))


def measure(settings: SpineLoss, say: Teller) -> dict[str, Any]:
    """One run; a Timeline as plain JSON."""
    topology, scheme = topology_of(SPINES), SCHEMES["mp-2"]
    folder, seen, stop = settings.folder / "running", Timeline(), threading.Event()
    threads: list[threading.Thread] = []

    def beside(start_ns: int) -> Sequence[Any]:
        told = (fabric, seen, start_ns / 1e9, stop)
        threads.extend(threading.Thread(target=each, args=told, daemon=True) for each in (watch, lose))
        for thread in threads:
            thread.start()
        seen.begin = start_ns / 1e9
        return ()

    with up(topology, f"{settings.prefix}t", folder, say, ("--keep-bounds", *SERVE)) as (testbed, fabric, _):
        in_force = bring_into_force(testbed, fabric, scheme, LOAD, {})
        trace, services = trace_of(LOAD, SEED, SECONDS, topology), receivers(topology)
        with asking(fabric) as client, say.bar("a spine is lost under traffic") as progress:
            try:
                result = run_pass(
                    testbed.ground, trace, scheme.name, folder, in_force, services, progress, beside=beside
                )
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    seen.events.sort()
    seen.waits = [(round(at - seen.begin, 3), round(wait, 5)) for at, wait in client.waits]
    seen.flows, seen.unfinished, seen.error = len(result.id), sum(result.failures.values()), client.error
    return asdict(seen)


def figure(seen: Mapping[str, Any]) -> str:
    """What each spine carries, and what a request of the first priority waits, over time; SVG."""
    page = Figure(figsize=(9, 5))
    above, below = page.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    at = np.array(seen["at_s"])
    middle = (at[STEP:] + at[:-STEP]) / 2
    rates = [
        8e-6 * (np.array(each[STEP:]) - np.array(each[:-STEP])) / (at[STEP:] - at[:-STEP])
        for each in seen["uplink_bytes"].values()
    ]
    above.stackplot(middle, rates, labels=list(seen["uplink_bytes"]), colors=OTHERS, alpha=0.85)
    above.set_ylabel("leaf to spine, Mb/s")
    above.legend(loc="upper right", ncols=SPINES, fontsize=8, bbox_to_anchor=(1, 1.3), frameon=False)
    asked, waits = np.array(seen["waits"]).T
    below.semilogy(asked, 1e3 * waits, ".", markersize=2, color=OF_SCHEME["MP-MLFQ"], rasterized=True)
    below.set_ylabel("a request's wait, ms")
    below.set_xlabel("s")
    below.set_xlim(0, max(middle))
    for when, what in seen["events"]:
        for axis in (above, below):
            axis.axvline(when, color="black", linewidth=0.7, linestyle=":")
        later = sum(when < other < when + NEAR_S for other, _ in seen["events"])
        place = (when, 1.02 + 0.075 * later)
        above.annotate(what, place, xycoords=("data", "axes fraction"), fontsize=8, annotation_clip=False)
    page.subplots_adjust(top=0.85, right=0.97, left=0.08)
    return svg_of(page)


def told(seen: Mapping[str, Any]) -> str:
    """The events, and what was lost."""
    lines = [f"- {at:.2f} s: {what}" for at, what in seen["events"]]
    lost = f"the connection of requests ended with {seen['error']}" if seen["error"] else "no connection was lost"
    longest = max(wait for at, wait in seen["waits"] if at >= 0)
    return "\n".join(
        [
            *lines,
            f"- {seen['flows']} flows, {seen['unfinished']} unfinished; {lost}; the longest wait of"
            f" {len(seen['waits'])} requests was {1e3 * longest:.0f} ms.",
        ]
    )
