"""Big-Spine (MP-MLFQ, HPSR'24): which queue, path and DSCP each priority has on K spines with N queues a port.

P = K (N - 1) + 1 priorities. Priorities 0 to K - 1 are the first-served queue at spine 0, 1 and so on; the next K are
the second queue at each spine, row by row. The last priority is the last-served queue at all spines, by weights. A flow
that sinks so goes to another spine (cross-path demotion), at a row's end also to a later queue, and at last to all of
them (load-balance demotion). This is the only place that knows that order; `policy.h` has its half for hosts.
"""

from collections.abc import Sequence

from .checks import text
from .errors import IntentError, PolicyError
from .leaves import BALANCED, NAME, our_dscp
from .policy import MAX_PRIORITIES, default_dscp
from .switch import QueueClass

UNPINNED_DSCP = 51
"""Unless told otherwise: pool 2 of RFC 2474 (local use), and by IP precedence before all default DSCPs."""


def priorities_of(spines: int, queues: int) -> int:
    """P of K spines with N queues a port; one spine or none has a queue a priority. Raises PolicyError."""
    count = max(spines, 1) * (queues - 1) + 1
    if queues < 1 or count > MAX_PRIORITIES:
        raise PolicyError(
            f"spines x queues is {spines} x {queues}, which makes {count} priorities, expected 1..{MAX_PRIORITIES}"
        )
    return count


def classes_of(
    spines: Sequence[str],
    queues: Sequence[int],
    dscp: Sequence[int] | None = None,
    threshold_bytes: Sequence[int] = (),
    dynamic_th: Sequence[int | None] | None = None,
    max_share: Sequence[float | None] | None = None,
    foretold_share: Sequence[float] | None = None,
) -> tuple[QueueClass, ...]:
    """The table: one class a priority.

    spines           names, in the order of the first row; one or none: every path is balanced
    queues           SONiC's numbers in served-first order, N of them
    dscp             of each priority; None: the default list, which has 8
    threshold_bytes  where priorities 1 to P - 1 begin; none: not told
    dynamic_th       of each queue, N of them: its share of the buffer; None: as the platform has it
    max_share        of each queue: its limit as a share of a port's speed; None: none
    foretold_share   of each priority: its share of all bytes; None: not told

    Raises PolicyError, IntentError.
    """
    check_spines(spines)
    priorities = priorities_of(len(spines), len(queues))
    chosen = dscp_list(priorities, dscp, pinned=len(spines) > 1)
    if threshold_bytes and len(threshold_bytes) != priorities - 1:
        raise PolicyError(
            f"threshold_bytes has {len(threshold_bytes)} values, expected {priorities - 1} for {priorities} priorities"
        )
    of_queues = {"dynamic_th": dynamic_th, "max_share": max_share}
    for name, values in of_queues.items():
        if values is not None and len(values) != len(queues):
            raise PolicyError(f"{name} has {len(values)} values, expected {len(queues)}, one a queue")
    if foretold_share is not None and len(foretold_share) != priorities:
        raise PolicyError(f"foretold_share has {len(foretold_share)} values, expected {priorities}, one a priority")
    begin = (0, *threshold_bytes) if threshold_bytes else (0,) * priorities
    width = max(len(spines), 1)
    return tuple(
        QueueClass(
            priority=p,
            dscp=chosen[p],
            queue=queues[p // width],
            path=spines[p % width] if len(spines) > 1 and p < priorities - 1 else BALANCED,
            threshold_bytes=begin[p],
            dynamic_th=None if dynamic_th is None else dynamic_th[p // width],
            max_share=None if max_share is None else max_share[p // width],
            foretold_share=None if foretold_share is None else foretold_share[p],
        )
        for p in range(priorities)
    )


def check_spines(spines: Sequence[str]) -> None:
    """Refuses names that are none, and a name twice."""
    for index, name in enumerate(spines):
        text(name, f"spines[{index}]", NAME, IntentError)
        if name == BALANCED:
            raise IntentError(f"spines[{index}] is {name!r}, expected a spine's name: {name!r} means all of them")
        if name in spines[:index]:
            raise IntentError(f"spines[{index}] is {name!r}, expected each spine once")


def dscp_list(priorities: int, dscp: Sequence[int] | None, *, pinned: bool = False) -> tuple[int, ...]:
    """The DSCP of each priority: `dscp` once it is checked, else the default list. Raises PolicyError.

    pinned   packets of all priorities but the last are sent to a spine, so DSCP 0, which everybody's packets carry,
             may be the last priority's alone
    """
    if dscp is None:
        if priorities > 8:
            raise PolicyError(f"dscp is missing, expected a list of {priorities}: the default list has 8")
        return default_dscp(priorities)
    if len(dscp) != priorities:
        raise PolicyError(f"dscp has {len(dscp)} values, expected {priorities}, one a priority")
    for priority, value in enumerate(dscp):
        check_free(value, f"dscp[{priority}]", dscp[:priority])
        if pinned and value == 0 and priority < priorities - 1:
            raise PolicyError(f"dscp[{priority}] is 0, expected another: packets that nobody marked carry it")
    return tuple(dscp)


def check_free(value: int, place: str, taken: Sequence[int]) -> None:
    """Refuses a DSCP that is no number of 0..63, that SONiC gives to something else, or that is taken already."""
    our_dscp(value, place, PolicyError)
    if value in taken:
        raise PolicyError(f"{place} is {value}, expected a DSCP that no priority before it has")
