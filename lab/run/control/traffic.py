"""The traffic of the control experiment: one service at one load, whose sizes are WebSearch's, then DataMining's.

The load stays, so that what changes is the sizes alone. DataMining's largest 2 % are left out: the largest flow would
take 16 s alone, and the experiment has minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.workload.services import Service, service
from lab.workload.trace import Flow, Trace, make_trace

BEFORE: Service = replace(service("search"), flow_share=0.9)
AFTER: Service = replace(BEFORE, table="datamining_bytes", highest_share=0.98)
SERVICES = (BEFORE,)
"""What listens; both kinds of flows are asked of it."""


def steady(of: Service, load: float, seed: int, seconds: float, hosts: Sequence[str], host_rate_bps: float) -> Trace:
    """One service's flows over exactly so many seconds, at about the load."""
    made = make_trace(load, seed, seconds, hosts, host_rate_bps, (of,))
    stretch = seconds / made.seconds
    flows = tuple(replace(flow, time_us=int(flow.time_us * stretch)) for flow in made.flows)
    return Trace(flows, {**made.settings, "seconds": f"{seconds:g}"})


def changing(
    load: float, seed: int, before_s: float, after_s: float, hosts: Sequence[str], host_rate_bps: float
) -> Trace:
    """`before_s` of WebSearch, then `after_s` of DataMining; the same arguments give the same trace."""
    flows: list[Flow] = []
    for number, (of, seconds) in enumerate(((BEFORE, before_s), (AFTER, after_s))):
        part = steady(of, load, seed * 2 + number, seconds, hosts, host_rate_bps)
        begin_us = int(number * before_s * 1e6)
        flows += [
            replace(flow, id=len(flows) + n, time_us=flow.time_us + begin_us) for n, flow in enumerate(part.flows, 1)
        ]
    settings = {"load": f"{load:g}", "seed": f"{seed}", "seconds": f"{before_s + after_s:g}"}
    return Trace(tuple(flows), settings | {"changes_s": f"{before_s:g}"})
