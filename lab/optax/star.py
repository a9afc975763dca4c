"""The experiment's star: senders and one receiver behind a port with one queue, or two by DSCP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lab.fabric import star as fabric

RTO_MIN_MS = 10
RECEIVER = "r"


@dataclass(frozen=True)
class Star:
    """`senders` hosts that send to one receiver through a port of `rate_bps` with `buffer_packets` a queue.

    These fields are part of a stored run's key: another one, and all runs are to be measured again.
    """

    prefix: str = "ox"
    senders: int = 8
    rate_bps: int = 100_000_000
    buffer_packets: int = 300
    first_dscp: int | None = None
    """Packets with this DSCP are served first; None: all packets in one queue."""

    @property
    def plan(self) -> fabric.Star:
        """What is built; hosts send at the port's rate."""
        return fabric.Star(
            self.prefix,
            tuple(f"s{n + 1}" for n in range(self.senders)),
            self.rate_bps,
            self.buffer_packets,
            receiver=RECEIVER,
            dscps=() if self.first_dscp is None else (self.first_dscp,),
            rto_min_ms=RTO_MIN_MS,
            hosts_shaped=True,
        )

    @property
    def receiver(self) -> str:
        """The receiver's namespace."""
        return self.plan.netns(RECEIVER)

    @property
    def sender_names(self) -> list[str]:
        """The senders' namespaces."""
        return [self.plan.netns(host) for host in self.plan.senders]

    @property
    def hosts(self) -> dict[str, str]:
        """Address by namespace, of all hosts."""
        return {self.plan.netns(host): self.plan.address(host) for host in self.plan.hosts}


@contextmanager
def up(star: Star) -> Iterator[Star]:
    """The star while the block runs. Raises FabricError as `lab.fabric.star.up` does."""
    with fabric.up(star.plan):
        yield star
