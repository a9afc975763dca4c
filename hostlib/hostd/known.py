"""What told flows' sizes before the first ACK, in bytes: for an operator, and for the demo."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qclimb.policy import Mode
from qclimb.record import BY_HTTP, BY_RULE, PARTLY_UNOBSERVED

if TYPE_CHECKING:
    import numpy as np  # which `status` has no use for
    from numpy.typing import NDArray
    from qclimb.record_rows import Rows


@dataclass
class Known:
    """Bytes of flows since this hostd started: all, and those whose size each source told exactly.

    first_write  the first call asked for all of it
    calls        all calls before the first ACK did (mode pias looks at the first one alone)
    announced    neither, but its own bytes said so
    """

    flows: int = 0
    bytes: int = 0
    first_write: int = 0
    calls: int = 0
    announced: int = 0

    def add(self, rows: "Rows", flows: "NDArray[np.uint64] | None" = None) -> None:
        """Takes some records, each of which stands for so many flows."""
        import numpy as np

        is_whole = rows["flags"] & PARTLY_UNOBSERVED == 0
        flows = np.ones(len(rows), np.uint64) if flows is None else flows
        rows, flows = rows[is_whole], flows[is_whole]
        size, stands_for = rows["size_bytes"], rows["size_bytes"] * flows
        first = rows["first_write_bytes"] >= size
        calls = (rows["footprint_lower_bytes"] == size) & (rows["mode"] != Mode.PIAS.number) & ~first
        said = np.isin(rows["announced_by"], (BY_HTTP, BY_RULE)) & (rows["announced_bytes"] == size)
        self.flows += int(flows.sum())
        self.bytes += int(stands_for.sum())
        self.first_write += int(stands_for[first].sum())
        self.calls += int(stands_for[calls].sum())
        self.announced += int(stands_for[said & ~first & ~calls].sum())


def words(found: dict[str, int]) -> str:
    """One line, of the fields of `Known`."""
    if not found["bytes"]:
        return "no flows yet"
    shares = {name: 100 * found[name] / found["bytes"] for name in ("first_write", "calls", "announced")}
    told = f"{shares['first_write']:.1f} % by the first write, {shares['calls']:.1f} % by further calls"
    rest = 100 - sum(shares.values())
    return f"of {found['bytes'] / 1e6:.1f} MB: {told}, {shares['announced']:.1f} % announced, {rest:.1f} % by nothing"
