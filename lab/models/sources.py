"""What told a flow's size before its first ACK: the first write, the system calls, its own bytes; or nothing did.

first write   the first call asked for all of it
footprint     all calls before the first ACK did
lengths       its bytes announced it (hostlib's length.h): HTTP's Content-Length, a rule that the host had learned
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb.lengths import EXACT_FLOWS, EXACT_SHARE
from qclimb.record import BY_HTTP, BY_RULE, CUT

from lab.models.flows import Flows

Mask = npt.NDArray[np.bool_]

USED = (BY_HTTP, BY_RULE)
"""What is announced by these is a bound; a rule on trial is only told."""


@dataclass(frozen=True)
class Known:
    """Which flows' sizes each source told exactly, each source with those before it: masks [n]; announced [n] in bytes,
    0 where nothing was that counts."""

    first_write: Mask
    footprint: Mask
    lengths: Mask
    announced_bytes: npt.NDArray[np.float64]


def known(flows: Flows) -> Known:
    """By what the flows' records say."""
    size = flows.size_bytes
    footprint = flows.footprint_bytes.astype(np.float64)
    announced = np.where(np.isin(flows.announced_by, USED), flows.announced_bytes, 0).astype(np.float64)
    announced[announced < footprint] = 0  # another message's: more was asked for
    first = flows.first_write_bytes.astype(np.float64) >= size
    proven = first | (footprint == size)
    return Known(first, proven, np.where(announced > 0, announced == size, proven), announced)


def told(flows: Flows) -> dict[str, Any]:
    """Shares by flows and by bytes that each source told exactly, and how what was announced did: JSON.

    `lengths, or cut`: also flows that a pause cut out of a message whose size was announced.
    """
    found = known(flows)
    size, spoke = flows.size_bytes, found.announced_bytes > 0
    cut = (flows.flags & CUT) != 0
    beyond = spoke & (found.announced_bytes > size)
    return {
        "name": flows.name,
        "flows": len(size),
        "bytes": int(size.sum()),
        "exact": {
            name: {"flows": float(mask.mean()), "bytes": float(size[mask].sum() / size.sum())}
            for name, mask in (
                ("first write", found.first_write),
                ("footprint", found.footprint),
                ("lengths", found.lengths),
                ("lengths, or cut", found.lengths | (spoke & cut)),
            )
        },
        "announced": {
            "flows": float(spoke.mean()),
            "beyond": float((beyond & ~cut).mean()),
            "short": float((spoke & (found.announced_bytes < size)).mean()),
            "cut": float((spoke & cut).mean()),
        },
    }


def joined(
    flows: Flows, shown: npt.NDArray[np.intp], test: npt.NDArray[np.intp], lower: Any, upper: Any
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Bounds of `test` flows joined with what was announced of them: L at least that, and U too where announcements of
    the same service were exact in at least 1,000 `shown` flows that they said something of."""
    announced = known(flows).announced_bytes
    low = np.maximum(np.asarray(lower, np.float64), announced[test])
    high = np.maximum(np.asarray(upper, np.float64), low)
    exact = np.isin(flows.services[test], exact_services(flows, shown)) & (announced[test] > 0)
    return np.where(exact, announced[test], low), np.where(exact, announced[test], high)


def exact_services(flows: Flows, shown: npt.NDArray[np.intp]) -> Sequence[int]:
    """Numbers of the services whose announcements are upper bounds, by hostd's rule."""
    announced = known(flows).announced_bytes
    asked = shown[(announced > flows.first_write_bytes)[shown] & ((flows.flags & CUT) == 0)[shown]]
    found = []
    for service in np.unique(flows.services[asked]):
        mine = asked[flows.services[asked] == service]
        if len(mine) >= EXACT_FLOWS and (announced[mine] == flows.size_bytes[mine]).mean() >= EXACT_SHARE:
            found.append(int(service))
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """Markdown: a row a traffic."""
    lines = [
        "| traffic | flows | exact by the first write, % of flows (bytes) | + footprint | + lengths "
        "| or cut out of a message | announced, % of flows | too much, % | too little, % | cut by a pause, % |",
        "|---" * 10 + "|",
    ]
    for one in found:
        exact = [f"{100 * part['flows']:.1f} ({100 * part['bytes']:.1f})" for part in one["exact"].values()]
        said = [f"{100 * part:.2f}" for part in one["announced"].values()]
        lines.append(f"| {one['name']} | {one['flows']:,} | " + " | ".join([*exact, *said]) + " |")
    return "\n".join(lines)
