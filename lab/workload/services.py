"""What runs in the lab's data centre: services, each with a size distribution, a writing habit and a structure of its
own.

All published sizes are divided by one factor, SCALE. Each service's sizes keep their published distribution over all
its flows, yet are not independent draws, as they are not in production: a flow's quantile is

    u = reflect(run + run_width * (U - 1/2)),   run = reflect(peer + peer_width * (U' - 1/2))

where `peer` is a constant of the ordered pair of hosts (the deployment's, not the trace's: it is the same in a
recording and in a later replay) and a new `run` is drawn after about `run_length` flows of the pair. `reflect` folds
a number back into [0, 1] at its ends, which keeps u uniform. Width 0: fully determined; width 2: independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lab.experiment.flows import Limits
from lab.sizes import SizeTable, load_table

SCALE = 20
"""Published sizes are divided by this; so are class limits, thresholds, slack and chunk sizes."""
SMALL_BYTES = 100_000 // SCALE
"""A flow up to this is small (QCLIMB: 100 KB)."""
MEDIUM_BYTES = 10_000_000 // SCALE
"""A flow up to this, and not small, is medium; above it is large (QCLIMB: 10 MB)."""
CHUNK_BYTES = 65536 // SCALE + 1
"""64 KB divided by SCALE, rounded up: 3277."""
MIN_FLOW_BYTES = 32
"""The smallest flow: the header of the applications' messages."""


@dataclass(frozen=True)
class Endpoint:
    """What programs need to know of a service. `how`: `pull` (the server sends, asked on a kept connection), `push`
    (the client sends), `curl` (one curl process a query, against nginx). `writing`: how the sender hands a flow to the
    kernel: `one`, `two` (header, then body) or `chunks:BYTES[:THINK_US]`; nginx uses sendfile."""

    name: str
    port: int
    how: Literal["pull", "push", "curl"]
    writing: str

    def served_by(self, hosts: Sequence[str]) -> list[str]:
        """The hosts on which it has a server."""
        return list(hosts)


@dataclass(frozen=True)
class Service(Endpoint):
    """A service of the lab's own traffic, with the sizes of its flows."""

    table: str
    lowest_share: float
    highest_share: float
    """Only the flows between these shares of the table."""
    flow_share: float
    """Share of all flows."""
    peer_width: float
    run_width: float
    run_length: int
    catalogue: int = 0
    """Sizes come from this many fixed files (0: any size)."""
    servers_every: int = 1
    """Every n-th host serves."""
    partners: int = 0
    """A client uses this many servers only, the same in every trace (0: all); each host is used equally."""
    about: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.flow_share < 1:
            raise ValueError(f"service {self.name}: flow_share is {self.flow_share}, not in (0, 1)")
        if not (0 <= self.peer_width <= 2 and 0 <= self.run_width <= 2):
            raise ValueError(f"service {self.name}: widths must lie in [0, 2]")
        if not (0 <= self.lowest_share < self.highest_share <= 1 and self.run_length >= 1):
            raise ValueError(f"service {self.name}: shares must ascend in [0, 1], run_length be at least 1")

    def served_by(self, hosts: Sequence[str]) -> list[str]:
        """Every n-th."""
        return list(hosts)[:: self.servers_every]

    @property
    def sizes(self) -> SizeTable:
        """The published table, unscaled."""
        return load_table(self.table)

    @property
    def mean_bytes(self) -> float:
        """Mean flow size in the lab, the smallest flow's bound aside."""
        return self.sizes.mean_bytes(self.lowest_share, self.highest_share) / SCALE

    def size_bytes(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """Sizes in the lab at quantiles u of this service's own distribution."""
        share = self.lowest_share + (self.highest_share - self.lowest_share) * u
        return np.maximum(MIN_FLOW_BYTES, np.rint(self.sizes.quantile(share) / SCALE)).astype(np.int64)


SERVICES: tuple[Service, ...] = (
    Service(
        "search", 9200, "pull", "one", "websearch_bytes", 0.0, 1.0, 0.32, 1.5, 2.0, 1,
        about="request and response on kept connections, the whole response in one write",
    ),
    Service(
        "store", 6800, "push", f"chunks:{CHUNK_BYTES}:500", "websearch_bytes", 0.96, 1.0, 0.05, 0.2, 1.0, 1,
        partners=2,
        about="uploads of large blocks in chunks as read from a disk (52 Mb/s); block sizes are a peer's own",
    ),
    Service(
        "shuffle", 7337, "pull", f"chunks:{CHUNK_BYTES}", "flux_pagerank_est_bytes", 0.0, 0.98, 0.38, 0.02, 1.0, 1,
        about="an iterative job's partitions on kept connections in chunks; a pair exchanges about as much each time",
    ),
    Service(
        "kv", 11211, "pull", "two", "alistorage2019_bytes", 0.0, 1.0, 0.235, 1.0, 2.0, 1,
        about="values of a storage service on kept connections, header and value in two writes",
    ),
    Service(
        "files", 8080, "curl", "sendfile", "websearch_bytes", 0.0, 1.0, 0.015, 2.0, 2.0, 1,
        catalogue=24, servers_every=2,
        about="files from nginx by sendfile, a curl process and a connection each",
    ),
)  # fmt: skip


def service(name: str) -> Service:
    """A service by name."""
    return next(found for found in SERVICES if found.name == name)


QUERIES = tuple(found.name for found in SERVICES if found.how == "curl")
"""Flows that curl times: they are reported on a line of their own."""
SCALED = Limits(SMALL_BYTES, MEDIUM_BYTES, QUERIES)
"""For the lab's own traffic."""
PUBLISHED = Limits(100_000, 10_000_000, QUERIES)
"""QCLIMB's own, for sizes that were not divided."""


def size_class(size_bytes: int, limits: Limits = SCALED) -> str:
    """`small`, `medium` or `large`."""
    return "small" if size_bytes <= limits.small_bytes else "medium" if size_bytes <= limits.medium_bytes else "large"
