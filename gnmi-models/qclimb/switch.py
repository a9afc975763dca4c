"""The parts of a switch intent and what must hold between them; `intent.SwitchIntent` adds the forms on the wire."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

from .checks import integer, shown
from .errors import IntentError
from .leaves import BALANCED, CLASS, INTENT, PATH, PRIORITY, SHARE_DIGITS, SPINE, AdminState, Tier, check
from .policy import MAX_PRIORITIES

SHARES_SUM = (0.999999, 1.000001)
"""between which the sum of all shares must lie"""


@dataclass(frozen=True)
class QueueClass:
    """One priority on this switch.

    priority         0 is served first
    dscp             0..63, what hosts write on its packets
    queue            0..7, SONiC's number: strict queues are served from the largest down
    path             the spine that its packets take, or "balanced" over all
    threshold_bytes  bytes of a flow at which hosts begin to use it; shown here, used there; 0: the first, or not told
    dynamic_th       its queue may hold 2^dynamic_th times what is free of the port's buffer (SONiC's BUFFER_PROFILE);
                     None: what the platform gives it
    max_share        its queue gets at most this share of a port's speed, in (0, 1]; None: no limit
    foretold_share   the share of all bytes that sizes and thresholds foretell for it, in [0, 1]: where it takes much
                     more of a port, there is an alarm; None: never
    """

    priority: int
    dscp: int
    queue: int
    path: str = BALANCED
    threshold_bytes: int = 0
    dynamic_th: int | None = None
    max_share: float | None = None
    foretold_share: float | None = None

    def __post_init__(self) -> None:
        check(self, (PRIORITY,))
        check(self, CLASS, f"class {self.priority} ")


@dataclass(frozen=True)
class PathWeights:
    """The share of balanced traffic that each spine, by name, should carry."""

    share: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, share in self.share.items():
            SPINE.kind.checked(name, "path name")
            if name == BALANCED:
                raise IntentError(f"path name is {name!r}, expected a spine's: {name!r} means all of them")
            PATH[0].kind.checked(share, f"path {name} share")
        total = round(sum(round(share, SHARE_DIGITS) for share in self.share.values()), SHARE_DIGITS)
        if not SHARES_SUM[0] <= total <= SHARES_SUM[1]:
            raise IntentError(f"path shares sum to {total}, expected 1")
        object.__setattr__(self, "share", MappingProxyType(dict(sorted(self.share.items()))))

    def __hash__(self) -> int:
        return hash(tuple(self.share.items()))


@dataclass(frozen=True)
class IntentFields:
    """One generation of what a switch is to do.

    classes        in priority order, 0 first, none left out; empty only when disabled
    ports          whose queues are granted to qclimb; empty: every port of the table PORT
    ecn_min_bytes, ecn_max_bytes   queue length between which packets are ECN-marked; both or none
    path_weights   shares of the balanced traffic; None: equal cost, as routing has it
    tier           where the switch stands: a leaf sends pinned classes to spines; on a spine nothing is steered, paths
                   tell only which classes may share a queue
    unpinned_dscp  of packets that get priority 0's queue and are pinned to no spine, so that ACKs do not all ride one
    """

    generation: int
    admin_state: AdminState
    classes: tuple[QueueClass, ...]
    ports: tuple[str, ...] = ()
    ecn_min_bytes: int | None = None
    ecn_max_bytes: int | None = None
    path_weights: PathWeights | None = None
    unpinned_dscp: int | None = None
    tier: Tier = "leaf"

    def __post_init__(self) -> None:
        check(self, INTENT)
        if not isinstance(self.classes, tuple):
            raise IntentError(f"classes is {shown(self.classes)}, expected a tuple")
        if self.admin_state == "enabled" and not self.classes:
            raise IntentError("classes is empty, expected at least one while admin_state is enabled")
        check_classes(self.classes)
        check_ecn(self.ecn_min_bytes, self.ecn_max_bytes)
        check_paths(self.classes, self.path_weights)
        if self.tier == "spine" and self.path_weights is not None:
            raise IntentError("tier is 'spine' and there are path shares, expected none: a spine sends to no spine")
        check_unpinned(self.unpinned_dscp, self.classes)

    @property
    def queues(self) -> tuple[int, ...]:
        """The queues granted to qclimb, served-first order, each once."""
        return tuple(dict.fromkeys(each.queue for each in self.classes))

    @property
    def spines(self) -> tuple[str, ...]:
        """The spines that classes are pinned to, each once, in the order of the classes."""
        return tuple(dict.fromkeys(each.path for each in self.classes if each.path != BALANCED))


def check_classes(classes: tuple[QueueClass, ...]) -> None:
    """Refuses classes that are not one a priority, share a DSCP, or whose queues would serve them in another order."""
    if len(classes) > MAX_PRIORITIES:
        raise IntentError(f"classes has {len(classes)} entries, expected at most {MAX_PRIORITIES}")
    dscps: dict[int, int] = {}
    for priority, each in enumerate(classes):
        if each.priority != priority:
            raise IntentError(f"classes[{priority}] has priority {each.priority}, expected {priority}: none left out")
        if each.dscp in dscps:
            raise IntentError(f"class {priority} dscp is {each.dscp}, expected another than class {dscps[each.dscp]}'s")
        dscps[each.dscp] = priority
    for before, after in pairwise(classes):
        check_served_in_order(before, after)
    queue_of_path: dict[tuple[int, str], int] = {}
    for each in classes:
        first = queue_of_path.setdefault((each.queue, each.path), each.priority)
        if first != each.priority:
            raise IntentError(
                f"class {each.priority} has queue {each.queue} on path {each.path}, "
                f"expected another than class {first}'s"
            )
    check_thresholds(classes)
    first_of: dict[int, QueueClass] = {}
    for each in classes:
        first_there = first_of.setdefault(each.queue, each)
        for name in ("dynamic_th", "max_share"):
            wanted, found = getattr(first_there, name), getattr(each, name)
            if wanted != found:
                raise IntentError(
                    f"class {each.priority} {name} is {told(found)}, expected {told(wanted)} as of class "
                    f"{first_there.priority}: both are in queue {each.queue}"
                )


def check_served_in_order(before: QueueClass, after: QueueClass) -> None:
    """Refuses a queue that is served before that of the priority before it; equal only on two different spines."""
    if after.queue > before.queue:
        raise IntentError(
            f"class {after.priority} queue is {after.queue}, expected less than class {before.priority}'s "
            f"{before.queue}: strict queues are served from the largest down"
        )
    if after.queue == before.queue and BALANCED in (before.path, after.path):
        raise IntentError(
            f"class {after.priority} queue is {after.queue} as class {before.priority}'s, "
            "expected that only where each is pinned to a spine of its own"
        )


def check_thresholds(classes: tuple[QueueClass, ...]) -> None:
    """Refuses thresholds that do not ascend strictly from the first class's 0; all 0 means that they are not told."""
    if not any(each.threshold_bytes for each in classes):
        return
    if classes[0].threshold_bytes:
        raise IntentError(f"class 0 threshold_bytes is {classes[0].threshold_bytes}, expected 0: there a flow begins")
    for before, after in pairwise(classes):
        if not before.threshold_bytes < after.threshold_bytes:
            raise IntentError(
                f"class {after.priority} threshold_bytes is {after.threshold_bytes}, "
                f"expected more than class {before.priority}'s {before.threshold_bytes}"
            )


def check_paths(classes: tuple[QueueClass, ...], weights: PathWeights | None) -> None:
    """Refuses a class at a spine that has no share, where shares are given; a share of 0 is one."""
    for each in classes:
        if weights is not None and each.path not in (BALANCED, *weights.share):
            names = ", ".join(weights.share)
            raise IntentError(
                f"class {each.priority} path is {each.path!r}, expected 'balanced' or one that has a share ({names})"
            )


def check_unpinned(dscp: int | None, classes: tuple[QueueClass, ...]) -> None:
    """Refuses an unpinned DSCP that is a class's, or that no class gives a meaning to."""
    if dscp is None:
        return
    if all(each.path == BALANCED for each in classes):
        raise IntentError(f"unpinned_dscp is {dscp}, expected none: no class is pinned to a spine")
    for each in classes:
        if each.dscp == dscp:
            raise IntentError(f"unpinned_dscp is {dscp}, expected another than class {each.priority}'s")


def check_ecn(least: int | None, most: int | None) -> None:
    """Refuses one limit without the other, and limits that cross."""
    if (least is None) != (most is None):
        raise IntentError(f"ecn_min_bytes is {told(least)} and ecn_max_bytes is {told(most)}, expected both or none")
    if least is not None and most is not None:
        integer(least, "ecn_min_bytes", 1, most, IntentError)


def told(value: float | None) -> str:
    """A value that may be left out, for a message."""
    return "not there" if value is None else str(value)
