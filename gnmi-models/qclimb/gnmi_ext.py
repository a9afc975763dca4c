"""What gNMI has that pygnmi's stubs (0.8.0) do not know: extensions of gnmi_ext.proto, union_replace of SetRequest.

One process can't load two generated sets of stubs, so these messages stand in a descriptor pool of their own and are
read from what the stubs keep as unknown fields. The numbers are those of openconfig/gnmi's protos; meanings: openconfig
reference, gnmi-commit-confirmed.md, gnmi-master-arbitration.md, gnmi-depth.md.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from .errors import QclimbError

ID_MOST = 256
"""characters of a commit's or a role's id"""
ROLLBACK_MOST_S = 7 * 86_400.0
NANOS = 10**9

_FIELD = descriptor_pb2.FieldDescriptorProto
_MESSAGES: dict[str, tuple[tuple[str, int, Any], ...]] = {
    "Duration": (("seconds", 1, _FIELD.TYPE_INT64), ("nanos", 2, _FIELD.TYPE_INT32)),
    "Rollback": (("rollback_duration", 1, "Duration"),),
    "Nothing": (),
    "Commit": (
        ("id", 1, _FIELD.TYPE_STRING),
        ("commit", 2, "Rollback"),
        ("confirm", 3, "Nothing"),
        ("cancel", 4, "Nothing"),
        ("set_rollback_duration", 5, "Rollback"),
    ),
    "Role": (("id", 1, _FIELD.TYPE_STRING),),
    "Uint128": (("high", 1, _FIELD.TYPE_UINT64), ("low", 2, _FIELD.TYPE_UINT64)),
    "MasterArbitration": (("role", 1, "Role"), ("election_id", 2, "Uint128")),
    "Depth": (("level", 1, _FIELD.TYPE_UINT32),),
    "Extension": (("master_arbitration", 2, "MasterArbitration"), ("commit", 4, "Commit"), ("depth", 5, "Depth")),
    "UnionReplace": (("union_replace", 6, [_FIELD.TYPE_BYTES]),),
}
"""by name: fields as (name, number, type); a list is a repeated field. `UnionReplace` is SetRequest's field 6."""
_NAMES = {1: "registered_ext", 3: "history", 6: "config_subscription"}
Action = Literal["commit", "confirm", "cancel", "set_rollback_duration"]
_ACTIONS: tuple[Action, ...] = get_args(Action)


class ExtensionError(QclimbError):
    """An extension that can't be read, or asks for what nobody can do."""


class UnknownExtension(ExtensionError):
    """An extension that is not supported here, by name."""


@dataclass(frozen=True)
class Commit:
    """A commit that has to be confirmed, or what is done with one.

    rollback_s  of `commit`, where its client says so, and of `set_rollback_duration`: in so many seconds it is undone
    """

    id: str
    action: Action
    rollback_s: float | None = None


@dataclass(frozen=True)
class Election:
    """Who writes now: among the clients of one role the one with the largest id (128 bits)."""

    role: str
    id: int


@dataclass(frozen=True)
class Extensions:
    """What a request asks for besides. `depth`: levels below a path that are told; 0: all."""

    commit: Commit | None = None
    election: Election | None = None
    depth: int = 0

    @property
    def named(self) -> list[str]:
        """Those that are there, as the protocol calls them."""
        there = {"commit": self.commit, "master_arbitration": self.election, "depth": self.depth}
        return [name for name, value in there.items() if value]


def read(serialized: Iterable[bytes]) -> Extensions:
    """The extensions of a request, each as its bytes. Raises ExtensionError, UnknownExtension."""
    found: dict[str, Any] = {}
    for each in serialized:
        one = _parsed("Extension", each)
        names = [field.name for field, _ in one.ListFields()]
        unknown: Iterable[Any] = UnknownFieldSet(one)
        names += [_NAMES.get(f.field_number, f"number {f.field_number}") for f in unknown]
        if len(names) != 1:
            raise ExtensionError(f"an extension has {' and '.join(names) or 'no content'}, expected one content")
        (name,) = names
        if name not in _READERS:
            raise UnknownExtension(f"extension {name} is not supported")
        if name in found:
            raise ExtensionError(f"extension {name} is there twice")
        found[name] = _READERS[name](getattr(one, name))
    return Extensions(found.get("commit"), found.get("master_arbitration"), found.get("depth", 0))


def union_replace_of(serialized: bytes) -> list[bytes]:
    """The `union_replace` updates of a SetRequest, each as the bytes of a gnmi.Update."""
    return list(_parsed("UnionReplace", serialized).union_replace)


def written(extension: Commit | Election) -> bytes:
    """The bytes of a gnmi_ext.Extension, which the stubs carry as an unknown field."""
    one = _CLASSES["Extension"]()
    if isinstance(extension, Election):
        one.master_arbitration.election_id.high, one.master_arbitration.election_id.low = divmod(extension.id, 2**64)
        if extension.role:
            one.master_arbitration.role.id = extension.role
    else:
        one.commit.id = extension.id
        action = getattr(one.commit, extension.action)
        action.SetInParent()
        if extension.rollback_s is not None:
            seconds, nanos = divmod(round(extension.rollback_s * NANOS), NANOS)
            action.rollback_duration.seconds, action.rollback_duration.nanos = seconds, nanos
    return bytes(one.SerializeToString())


def _commit(one: Any) -> Commit:
    names = [name for name in _ACTIONS if one.HasField(name)]
    if not 0 < len(one.id) <= ID_MOST:
        raise ExtensionError(f"commit: the id has {len(one.id)} characters, expected 1 to {ID_MOST}")
    if len(names) != 1:
        raise ExtensionError(f"commit {one.id!r}: {len(names)} actions, expected one of {', '.join(_ACTIONS)}")
    (name,) = names
    action, rollback_s = getattr(one, name), None
    if name in ("commit", "set_rollback_duration") and action.HasField("rollback_duration"):
        rollback_s = action.rollback_duration.seconds + action.rollback_duration.nanos / NANOS
    if name == "commit" and rollback_s == 0:  # gnmic says so where its user says nothing
        rollback_s = None
    if name == "set_rollback_duration" and rollback_s is None:
        raise ExtensionError(f"commit {one.id!r}: set_rollback_duration without a rollback_duration")
    if rollback_s is not None and not (isfinite(rollback_s) and 0 < rollback_s <= ROLLBACK_MOST_S):
        most = f"more than 0 and at most {ROLLBACK_MOST_S:.0f} s"
        raise ExtensionError(f"commit {one.id!r}: rollback_duration is {rollback_s:g} s, expected {most}")
    return Commit(one.id, name, rollback_s)


def _election(one: Any) -> Election:
    if not one.HasField("election_id"):
        raise ExtensionError("master_arbitration without an election_id")
    if len(one.role.id) > ID_MOST:
        raise ExtensionError(f"master_arbitration: a role of {len(one.role.id)} characters, expected at most {ID_MOST}")
    return Election(one.role.id, (one.election_id.high << 64) + one.election_id.low)


_READERS: dict[str, Callable[[Any], Any]] = {
    "commit": _commit,
    "master_arbitration": _election,
    "depth": lambda one: one.level,
}


def _parsed(name: str, serialized: bytes) -> Any:
    try:
        return _CLASSES[name].FromString(serialized)
    except DecodeError:
        raise ExtensionError(f"{name.lower()}: its {len(serialized)} bytes can't be parsed") from None


def _classes() -> dict[str, Any]:
    package = "qclimb.gnmi_ext"
    file = descriptor_pb2.FileDescriptorProto(name="qclimb/gnmi_ext.proto", package=package, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            is_repeated = isinstance(kind, list)
            label = _FIELD.LABEL_REPEATED if is_repeated else _FIELD.LABEL_OPTIONAL
            one = message.field.add(name=field, number=number, label=label)
            if isinstance(kind, str):
                one.type, one.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"
            else:
                one.type = kind[0] if is_repeated else kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {n: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{n}")) for n in _MESSAGES}


_CLASSES = _classes()
