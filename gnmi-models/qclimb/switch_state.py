"""What a switch tells of spines: JSON_IETF of qclimb.yang's state. What a newer one tells besides is passed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from .checks import UINT64_MAX, decimal, mapping, sequence, shown, text
from .errors import IntentError
from .gnmi import MODULE, unwrapped
from .leaves import NAME

Status = Literal["up", "unresolved", "down"]


@dataclass(frozen=True)
class SpineState:
    """One spine as a switch's own tables know it.

    status             whether packets can be sent there, and why not: `reason`
    packets, bytes     of pinned classes that were sent there; None: nothing counts them
    link_bytes, link_dropped_packets
                       of all classes, sent and dropped by the interfaces that lead there; None: nothing counts them
    """

    name: str
    status: Status
    reason: str = ""
    interfaces: tuple[str, ...] = ()
    next_hops: tuple[str, ...] = ()
    packets: int | None = None
    bytes: int | None = None
    link_bytes: int | None = None
    link_dropped_packets: int | None = None


@dataclass(frozen=True)
class SwitchState:
    """How a switch can pin classes (None: it does not say), how many, and the spines that its uplinks lead to."""

    path_backend: str | None = None
    pinned_classes_max: int | None = None
    spines: Mapping[str, SpineState] = field(default_factory=dict)

    @classmethod
    def from_gnmi(cls, obj: object) -> Self:
        """Of the content of `/qclimb`, with or without the outer `qclimb:qclimb`. Raises IntentError."""
        tree = _members(unwrapped({} if obj is None else obj), "/qclimb")
        top = _members(tree.get("state", {}), "/qclimb/state")
        most = top.get("pinned-classes-max")
        ports, found = _ports(tree), {}
        for entry in sequence(_members(tree.get("spines", {}), "/qclimb/spines").get("spine", []), PLACE, IntentError):
            state = _members(_members(entry, PLACE).get("state", {}), PLACE)
            one = _spine(state)
            links = [ports[each] for each in one.interfaces if each in ports]
            sent, dropped = (_sum(links, leaf) for leaf in ("bytes", "dropped-packets"))
            found[one.name] = replace(one, link_bytes=sent, link_dropped_packets=dropped)
        backend = top.get("path-backend")
        return cls(
            None if backend is None else str(backend),
            None if most is None else decimal(most, "/qclimb/state/pinned-classes-max", 0, 2**16 - 1, IntentError),
            found,
        )


PLACE, PORTS = "/qclimb/spines/spine", "/qclimb/ports/port"


def _spine(state: Mapping[str, Any]) -> SpineState:
    name = text(state.get("name"), f"{PLACE}/state/name", NAME, IntentError)
    place = f"{PLACE}[name='{name}']/state"
    if state.get("status") not in get_args(Status):
        raise IntentError(
            f"{place}/status is {shown(state.get('status'))}, expected one of {', '.join(get_args(Status))}"
        )
    return SpineState(
        name,
        state["status"],
        str(state.get("reason", "")),
        _texts(state, "interfaces", place),
        _texts(state, "next-hops", place),
        _count(state, "packets", place),
        _count(state, "bytes", place),
    )


def _ports(tree: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """What each port has counted, by its name."""
    found = {}
    for entry in sequence(_members(tree.get("ports", {}), "/qclimb/ports").get("port", []), PORTS, IntentError):
        state = _members(_members(entry, PORTS).get("state", {}), PORTS)
        counts = {leaf: _count(state, leaf, f"{PORTS}/state") for leaf in ("bytes", "dropped-packets")}
        found[str(state.get("name"))] = {leaf: count for leaf, count in counts.items() if count is not None}
    return found


def _sum(ports: Sequence[Mapping[str, int]], leaf: str) -> int | None:
    counted = [port[leaf] for port in ports if leaf in port]
    return sum(counted) if counted else None


def _texts(state: Mapping[str, Any], leaf: str, place: str) -> tuple[str, ...]:
    return tuple(map(str, sequence(state.get(leaf, []), f"{place}/{leaf}", IntentError)))


def _count(state: Mapping[str, Any], leaf: str, place: str) -> int | None:
    return decimal(state[leaf], f"{place}/{leaf}", 0, UINT64_MAX, IntentError) if leaf in state else None


def _members(obj: object, place: str) -> dict[str, Any]:
    return {key.removeprefix(f"{MODULE}:"): value for key, value in mapping(obj, place, IntentError).items()}
