"""The traffic of the drift experiment: one trace whose flows change at a moment, between programs that go on running.

Before: a store's values and a job's shuffle (K-Means by Flux's estimates; each pair of hosts exchanges about as much
every time). Then another job (PageRank's sizes) shuffles on the same port, and a service begins that no host ever had.
Arrivals are Poisson at one rate throughout, so that what changes is what is sent, not how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.workload.services import Service, service
from lab.workload.trace import Flow, Trace, make_trace, wire_bytes

_KV = replace(service("kv"), flow_share=0.6)
_SHUFFLE = replace(service("shuffle"), table="flux_kmeans_est_bytes", flow_share=0.4, highest_share=1.0)

BEFORE: tuple[Service, ...] = (_KV, _SHUFFLE)
AFTER: tuple[Service, ...] = (
    replace(_KV, flow_share=0.45),
    replace(_SHUFFLE, flow_share=0.3, table="flux_pagerank_est_bytes", highest_share=0.98),
    replace(service("search"), flow_share=0.25, highest_share=0.7),
)
SERVICES: tuple[Service, ...] = AFTER
"""What listens from the beginning; the new service is asked for only after the change."""


def changing(flows_per_s: float, seed: int, before_s: float, after_s: float, hosts: Sequence[str]) -> Trace:
    """The trace: `before_s` of one traffic, then `after_s` of the other; the same arguments give the same trace."""
    flows: list[Flow] = []
    for number, (services, seconds) in enumerate(((BEFORE, before_s), (AFTER, after_s))):
        flows += [
            replace(flow, id=len(flows) + n, time_us=flow.time_us + int(number * before_s * 1e6))
            for n, flow in enumerate(_steady(services, flows_per_s, seed * 2 + number, seconds, hosts), 1)
        ]
    settings = {"seed": f"{seed}", "seconds": f"{before_s + after_s:g}", "changes_s": f"{before_s:g}"}
    return Trace(tuple(flows), settings)


def _steady(
    services: Sequence[Service], flows_per_s: float, seed: int, seconds: float, hosts: Sequence[str]
) -> list[Flow]:
    """Flows of services at a rate, over exactly so many seconds."""
    shares = sum(found.flow_share for found in services)
    mean = sum(found.flow_share / shares * float(wire_bytes(int(found.mean_bytes))) for found in services)
    rate_bps = 1e9  # of no consequence: times are brought to the wanted length below
    made = make_trace(flows_per_s * mean * 8 / (len(hosts) * rate_bps), seed, seconds, hosts, rate_bps, services)
    stretch = seconds / made.seconds
    return [replace(flow, time_us=int(flow.time_us * stretch)) for flow in made.flows]
