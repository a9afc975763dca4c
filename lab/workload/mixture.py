"""Several recordings replayed at once, each at a load of its own: applications that share the fabric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lab.workload.trace import Trace


def mixed(parts: Mapping[str, Trace]) -> Trace:
    """One trace of several, by name: as long as the shortest, flows numbered anew in order of time, each service named
    after its part."""
    seconds = min(trace.seconds for trace in parts.values())
    kept = [
        replace(flow, service=part_service(name, flow.service))
        for name, trace in parts.items()
        for flow in trace.flows
        if flow.time_us < seconds * 1e6
    ]
    kept.sort(key=lambda flow: flow.time_us)
    digests = {f"{name}_digest": trace.settings["recording_digest"] for name, trace in parts.items()}
    load = sum(float(trace.settings["load"]) for trace in parts.values())
    seed = next(iter(parts.values())).settings["seed"]
    settings = {"load": f"{load:g}", "seed": seed, "seconds": f"{seconds:.6f}", **digests}
    return Trace(tuple(replace(flow, id=n + 1) for n, flow in enumerate(kept)), settings)


def part_service(part: str, service: str) -> str:
    """The name of a part's service."""
    return f"{part}-{service}"


def part_of(service: str) -> str:
    """The reverse: whose service it is; "" of a trace that is not mixed."""
    return service.partition("-")[0] if "-" in service else ""
