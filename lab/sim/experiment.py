"""One run, stated in full: fabric, discipline, flows. Values that can't be are refused here, by the field's name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.pfabric import Pfabric
from lab.sim.scheme import Scheme
from lab.sim.sizes import mean_wire_bytes, size_table
from lab.sim.topology import Topology
from lab.sim.wire import MOST_PS
from lab.sim.wired import Fabric, Wired
from lab.sim.workload import FlowList, Workload

MOST_LOAD = 2.0
DRAWN, MOST_FLOWS = 10_000, 10**10
"""Flows unless told otherwise, and at most."""
MOST_PORT = 2**31 - 1
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("topology", Fabric, "a Topology, FatTree, BCube, Jellyfish or Linear"),
    ("scheme", Scheme, "a scheme's settings, as scheme_named gives by its name"),
    ("workload", Workload | FlowList, "a Workload or a FlowList"),
    ("flows", int | None, "a whole number"),
)
"""What an experiment is made of."""


@dataclass(frozen=True)
class Watch:
    """Of one port: bytes sent and the longest queue in each step."""

    port: int
    step_us: float = 100.0

    def __post_init__(self) -> None:
        check_kinds("watch.", self)
        check("watch.port", self.port, 0, MOST_PORT)
        check("watch.step_us", self.step_us, 0.001, 10**6)


@dataclass(frozen=True)
class Experiment:
    """Defaults: pFabric over web-search flows at load 0.6 in pFabric's fabric."""

    topology: Fabric = field(default_factory=Topology)
    scheme: Scheme = field(default_factory=Pfabric)
    workload: Workload | FlowList = field(default_factory=Workload)
    load: float = 0.6
    """As lab.sim.workload defines it; at 1 and more the fabric can't carry what is offered, which is allowed."""
    flows: int | None = None
    """How many begin; of a list, the first so many. None: 10,000, or all of a list."""
    seed: int = 1
    """Of sizes, arrivals, pairs, forecasts, and of ECMP and spraying."""
    routing: Literal["ecmp", "spray", "priority"] = "ecmp"
    """One path a flow; packets round the spines in turn; or Big-Spine's: a spine for each priority but the last."""
    spine_shares: tuple[int, ...] = ()
    """Whole-number weights of the spines under ecmp and spray, and of Big-Spine's last priority; empty: equal."""
    payload_bytes: int = 1460
    header_bytes: int = 40
    """Of each packet and of an ACK: IP and TCP, as in YAPS and ns-2 (no Ethernet framing)."""
    end_s: float | None = None
    """Simulated time at which the run stops, flows under way or not; None: when all are over."""
    losses: tuple[tuple[int, float], ...] = ()
    """Of links that lose packets at random: the port that sends, and the share. A host's port has its number; a leaf's
    towards a host has the number of hosts and the host's (Wired.links has those of other fabrics)."""
    watch: Watch | None = None
    """A port to be told of over time (Counters.watched)."""

    def __post_init__(self) -> None:
        for name, kind, expected in PARTS:
            if not isinstance(getattr(self, name), kind):
                raise ExperimentError(f"{name} is {getattr(self, name)!r}, expected {expected}")
        check_kinds("", self)
        if not 0 < self.load <= MOST_LOAD:
            raise ExperimentError(f"load is {self.load}, expected above 0, up to {MOST_LOAD}")
        most = len(self.workload.start_ps) if isinstance(self.workload, FlowList) else MOST_FLOWS
        if not 1 <= self.count <= most:
            raise ExperimentError(f"flows is {self.flows}, expected 1 to {most}")
        if not 0 <= self.seed < 2**32:
            raise ExperimentError(f"seed is {self.seed}, expected 0 to 2^32 - 1")
        if self.routing not in ("ecmp", "spray", "priority"):
            raise ExperimentError(f"routing is {self.routing!r}, expected ecmp, spray or priority")
        can = self.scheme.can
        if self.routing == "priority" and not (self.scheme.priorities and self.topology.spines):
            lacking = f"scheme {self.scheme.name} has no priorities" if self.topology.spines else "topology.spines is 0"
            raise ExperimentError(f"routing is 'priority', but {lacking}")
        if self.routing == "spray" and can.rated:
            raise ExperimentError(f"routing is 'spray', but a flow of scheme {self.scheme.name} keeps to one path")
        if self.spine_shares:
            if len(self.spine_shares) != self.topology.spines:
                raise ExperimentError(
                    f"spine_shares has {len(self.spine_shares)} values, expected {self.topology.spines}, one a spine"
                )
            if not (all(share >= 0 for share in self.spine_shares) and 0 < sum(self.spine_shares) < 2**32):
                raise ExperimentError(f"spine_shares are {self.spine_shares}, expected 0 or more, not all 0")
        if len(self.scheme.alphas) not in (1, self._queues):
            raise ExperimentError(
                f"scheme.dynamic_alpha has {len(self.scheme.alphas)} shares, expected 1 or {self._queues}, one a queue"
            )
        groups = getattr(self.scheme, "group_weights", ())
        of = getattr(self.workload, "group", None)
        if groups and of is not None and max(of) >= len(groups):
            flow = int(of.argmax())
            raise ExperimentError(
                f"workload.group[{flow}] is {of[flow]}, expected below {len(groups)}, the number of "
                "scheme.group_weights"
            )
        if not 1 <= self.payload_bytes <= 65_535:
            raise ExperimentError(f"payload_bytes is {self.payload_bytes}, expected 1 to 65535")
        if not 1 <= self.header_bytes <= 1_000:
            raise ExperimentError(f"header_bytes is {self.header_bytes}, expected 1 to 1000")
        if self.end_s is not None and not 0 < self.end_s <= 10**6:
            raise ExperimentError(f"end_s is {self.end_s}, expected above 0, up to 1e6")
        for port, share in self.losses:
            if not (port >= 0 and 0 <= share <= 1):
                raise ExperimentError(f"losses has port {port} with share {share}, expected 0 or more and 0 to 1")
        if len(ports := [port for port, _ in self.losses]) > len(set(ports)):
            raise ExperimentError(f"losses has ports {ports}, expected each once")
        if can.flow_level and (self.losses or self.watch):
            what = "losses has a link" if self.losses else "watch has a port"
            raise ExperimentError(f"{what}, but scheme {self.scheme.name} has no packets")
        if isinstance(self.workload, Workload):
            self.workload.flows_per_second(self.topology, self.load, self.payload_bytes, self.header_bytes)

    @property
    def _queues(self) -> int:
        """Of each port: one a priority; in a Big-Spine one for as many priorities as it has spines."""
        priorities = self.scheme.priorities or 1
        return (priorities - 1) // self.topology.spines + 1 if self.routing == "priority" else priorities

    @property
    def count(self) -> int:
        """How many flows begin."""
        if self.flows is not None:
            return self.flows
        return len(self.workload.start_ps) if isinstance(self.workload, FlowList) else DRAWN

    def overload(self) -> str | None:
        """Where drawn flows offer more than links carry, in one sentence; None where they do not, and for lists."""
        if not isinstance(self.workload, Workload):
            return None
        topology, workload = self.topology, self.workload
        packet = self.payload_bytes, self.header_bytes
        flow_bits = 8 * mean_wire_bytes(size_table(workload.sizes), *packet)
        offered = workload.flows_per_second(topology, self.load, *packet) * flow_bits
        shares = {
            "the busiest host's link": offered * workload.matrix.busiest_share(topology) / topology.host_rate_bps,
        }
        if not isinstance(topology, Wired) and topology.spines:
            core = topology.leaves * topology.spines * topology.uplink_rate_bps
            shares["the links between leaves and spines"] = offered * workload.matrix.core_share(topology) / core
        over = [f"{where} {share:.2f}" for where, share in shares.items() if share >= 1 - 1e-9]
        if not over:
            return None
        return (
            f"load is {self.load:g}: of what they carry, it offers {' and '.join(over)}; queues, and FCTs with "
            "them, grow for as long as flows arrive"
        )

    def _of_links(self) -> Settings:
        return {
            "lossy_ports": ",".join(str(port) for port, _ in self.losses),
            "loss_ppm": ",".join(str(round(share * 1e6)) for _, share in self.losses),
            "watched_port": -1 if self.watch is None else self.watch.port,
            "watch_step_ps": 1 if self.watch is None else round(self.watch.step_us * 1e6),
        }

    def settings(self) -> Settings:
        """As the engine reads them."""
        topology = self.topology
        return {
            **topology.settings(),
            "seed": self.seed,
            "routing": self.routing,
            **({} if isinstance(topology, Wired) else {"spine_shares": ",".join(map(str, self.spine_shares))}),
            **({} if self.scheme.can.flow_level else self._of_links()),
            "payload_bytes": self.payload_bytes,
            "header_bytes": self.header_bytes,
            "end_ps": MOST_PS if self.end_s is None else round(self.end_s * 1e12),
            **self.scheme.settings(),
        }
