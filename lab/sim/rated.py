"""Schemes whose switches tell hosts at which rate to send: PDQ, RCP, D3 (engine/links, engine/schemes/rated.h).

Flows keep to one path, and ACKs come back by it. A flow may have a deadline (`FlowList.deadline_ps`). The scheduling
header is not added by itself: give the experiment `header_bytes` of 56, for IP, TCP and the 16 bytes of PDQ's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lab.sim.errors import ExperimentError, Settings, check, check_kinds
from lab.sim.ports import strict_ports
from lab.sim.scheme import Can, Scheme

CRITICALITIES = ("size", "random", "sent", "shortest", "earliest")
MOST_SUBFLOWS = 8
RULES = ("pdq", "rcp", "d3")
"""Of the flow level."""


def _check_criticality(word: str) -> None:
    if word not in CRITICALITIES:
        raise ExperimentError(f"scheme.criticality is {word!r}, expected one of {', '.join(CRITICALITIES)}")


@dataclass(frozen=True)
class Rated(Scheme):
    """What the three share. Defaults: PDQ's paper, section 5.1 (1 Gb/s, a round trip of some 150 us)."""

    name: str = "rated"
    scheme: ClassVar[str] = ""
    rtt_us: float = 150.0
    """What hosts and links take for the round trip before they have measured one."""
    timeout_us: float = 2_000.0
    """Without news for so long, and for three round trips, what is not acknowledged is sent again."""
    buffer_bytes: int = 4_000_000
    """Of each port, hosts' ports too: first in, first out, tail drop."""
    terminates: bool = True
    """Flows that cannot meet their deadline end without having finished: PDQ's early termination, D3's quenching."""

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)
        check("scheme.rtt_us", self.rtt_us, 0.1, 10**6)
        check("scheme.timeout_us", self.timeout_us, 0.001, 10**7)
        check("scheme.buffer_bytes", self.buffer_bytes, 1, 10**12)

    @property
    def can(self) -> Can:
        """Rates, and deadlines where the rule knows them."""
        return Can(rated=True, deadlines=self.scheme != "rcp")

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": self.scheme,
            "rtt_ps": round(self.rtt_us * 1e6),
            "timeout_ps": round(self.timeout_us * 1e6),
            "terminates": int(self.terminates),
            **({"terminates_paused": 0} if self.terminates else {}),
            "criticality": "size",
            "aging_tenths": 0,
            "subflows": 1,
            **strict_ports(self.buffer_bytes),
        }


@dataclass(frozen=True)
class Pdq(Rated):
    """PDQ (SIGCOMM'12). The default is PDQ(Full); its parts are settings. RTTs: of a link's average round trip."""

    name: str = "pdq"
    scheme: ClassVar[str] = "pdq"
    early_start_rtts: float = 2.0
    """K: flows that end within so many round trips, and so many together, hold nobody up; 0: no early start."""
    suppressed_probing_rtts: float = 0.2
    """X: a paused flow asks again after so many round trips for each that is more critical; 0: after one."""
    dampening_rtts: float = 1.0
    """Between two acceptances of paused flows at most, and no longer than the first of them takes at its full rate; the
    paper states no value."""
    list_flows: int = 1_000_000
    """M: a link remembers at most so many flows, and never more than twice as many as are sending; 0: only that."""
    criticality: str = "size"
    """After the deadline: what is left (`size`), drawn once (`random`), or what was sent by 50 KB (`sent`). What is
    left whatever the deadline (`shortest`); the deadline alone (`earliest`)."""
    aging: float = 0.0
    """A flow's number is divided by 2^(aging t), t being how long it was paused in units of 100 ms; 0: nobody ages."""
    subflows: int = 1
    """M-PDQ: so many parts of a flow, each on a path of its own where there are so many."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check("scheme.early_start_rtts", self.early_start_rtts, 0, 100)
        check("scheme.suppressed_probing_rtts", self.suppressed_probing_rtts, 0, 100)
        check("scheme.dampening_rtts", self.dampening_rtts, 0, 100)
        check("scheme.list_flows", self.list_flows, 0, 10**6)
        check("scheme.aging", self.aging, 0, 100)
        check("scheme.subflows", self.subflows, 1, MOST_SUBFLOWS)
        _check_criticality(self.criticality)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            **super().settings(),
            **({"terminates_paused": 1} if self.terminates else {}),
            "early_start_tenths": round(self.early_start_rtts * 10),
            "probe_tenths": round(self.suppressed_probing_rtts * 10),
            "dampening_tenths": round(self.dampening_rtts * 10),
            "list_flows": self.list_flows,
            "criticality": self.criticality,
            "aging_tenths": round(self.aging * 10),
            "subflows": self.subflows,
        }


@dataclass(frozen=True)
class Rcp(Rated):
    """RCP with an exact count of flows, as PDQ's paper runs it. It knows no deadlines."""

    name: str = "rcp"
    scheme: ClassVar[str] = "rcp"
    terminates: bool = False


@dataclass(frozen=True)
class D3(Rated):
    """D3 (SIGCOMM'11) with the parameters that it suggests."""

    name: str = "d3"
    scheme: ClassVar[str] = "d3"
    alpha: float = 0.1
    beta: float = 1.0
    """Of the rate adaptation: how much unused capacity and queue weigh; in hundredths."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check("scheme.alpha", self.alpha, 0, 1)
        check("scheme.beta", self.beta, 0, 10)

    def settings(self) -> Settings:
        """As the engine reads them."""
        return super().settings() | {
            "alpha_100ths": round(self.alpha * 100),
            "beta_100ths": round(self.beta * 100),
        }


@dataclass(frozen=True)
class FlowLevel(Scheme):
    """PDQ, RCP or D3 without packets (engine/schemes/flowlevel.h): for thousands of servers."""

    name: str = "flow-pdq"
    rule: str = "pdq"
    """pdq, rcp or d3."""
    terminates: bool = True
    """As above; RCP knows no deadlines."""
    criticality: str = "size"
    aging: float = 0.0
    """Both as Pdq's."""
    step_ms: float = 0.0
    """Rates change at its whole multiples alone, as in the paper (1 ms); 0: at once."""

    def __post_init__(self) -> None:
        check_kinds("scheme.", self)
        if self.rule not in RULES:
            raise ExperimentError(f"scheme.rule is {self.rule!r}, expected one of {', '.join(RULES)}")
        _check_criticality(self.criticality)
        check("scheme.aging", self.aging, 0, 100)
        check("scheme.step_ms", self.step_ms, 0, 1000)

    @property
    def can(self) -> Can:
        """As the rule with packets."""
        return Can(rated=True, flow_level=True, deadlines=self.rule != "rcp")

    def settings(self) -> Settings:
        """As the engine reads them."""
        return {
            "scheme": "flow",
            "rule": self.rule,
            "terminates": int(self.terminates and self.rule != "rcp"),
            "criticality": self.criticality,
            "aging_tenths": round(self.aging * 10),
            "step_ps": round(self.step_ms * 1e9),
            "priorities": 1,
        }
