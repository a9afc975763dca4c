"""Validation by the YANG modules themselves; the only module that needs libyang.

`validate_gnmi` checks JSON of qclimb.yang, `validate_config_db` rows of sonic-qclimb.yang, translated as SONiC's own
sonic_yang does. Both raise IntentError with the data path that is wrong. `SwitchIntent` checks the same rules once
more in Python, on hosts without libyang; the tests hold the two against each other.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import libyang

from .checks import UINT64_MAX, digits_of, mapping, shown
from .errors import IntentError
from .gnmi import MODULE, unwrapped

SONIC_MODULE = "sonic-qclimb"
_WIDE = {"uint64", "int64", "decimal64"}  # strings in RFC 7951
_NARROW = {"uint8", "uint16", "uint32", "int8"}

# libyang keeps the data path of an error only with its log turned on; the exception carries it, so the log is muted.
libyang.configure_logging(True, logging.ERROR)
logging.getLogger("libyang").setLevel(logging.CRITICAL + 1)
_LOCATION = re.compile(r':? *(?:, )?[SsDd](chema|ata) location "(.*?)"(?=,|\.)(?:, line number \d+)?\.?')
_PATH = re.compile(r":? *(?:, )?[SsDd](chema|ata) path: (\S+)(?: \(line \d+\))?")
"""libyang 2 says it by the former, libyang 3, which SONiC has, by the latter"""
_MESSAGE_MOST = 8000
"""characters of libyang's message that are looked at: it tells a value whole, and these patterns hold up all threads"""
_one_at_a_time = Lock()  # a context keeps its last error, so threads must not mix theirs


def yang_directory() -> Path:
    """Where the YANG files are: inside the installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    return next(found for found in (here / "yang", here.parent / "yang") if found.is_dir())


def validate_gnmi(obj: object, *, state: bool = False) -> None:
    """Refuses what is no valid content of `/qclimb` (with or without the outer `qclimb:qclimb`).

    state   also allow the `state` containers, as in what a switch answers; a Set has none.
    """
    types = _gnmi_types()

    def retyped(name: str, value: Any) -> Any:
        base = types.get(name.removeprefix(f"{MODULE}:"))
        if base in _WIDE and isinstance(value, str) and re.search(r"^\s|\s$|0[xX]", value):  # which libyang takes
            raise IntentError(f"{name} is {shown(value)}, expected decimal digits (RFC 7950 section 9.2.1)")
        return _as_json_ietf(value, base)

    try:
        tree = _retyped(unwrapped(obj), retyped)
    except RecursionError:
        raise IntentError("/qclimb is nested deeper than the model") from None
    _validate(MODULE, {f"{MODULE}:qclimb": tree}, state=state)


def validate_config_db(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
    """Refuses rows that SONiC would refuse; tables of other modules are passed over.

    Inner completeness (no priority left out, both ECN limits) is not asked for here, see the module's description.
    """
    _validate(SONIC_MODULE, {f"{SONIC_MODULE}:{SONIC_MODULE}": dict(_tables(rows))}, state=False)


def _validate(module: str, tree: object, *, state: bool) -> None:
    with _one_at_a_time:
        try:
            data = _context(module).parse_data_mem(
                json.dumps(tree), "json", strict=True, no_state=not state, validate_present=True
            )
        except libyang.LibyangError as error:
            raise IntentError(_sentence(str(error))) from None
        if data is not None:
            data.free()


@cache
def _context(module: str) -> libyang.Context:
    context = libyang.Context()
    with (yang_directory() / f"{module}.yang").open() as file:  # this very file, whatever YANGPATH says
        context.parse_module_file(file)
    return context


@cache
def _gnmi_types() -> dict[str, str]:
    """Base type of each leaf of qclimb.yang by name; a name has one type throughout that module."""
    return dict(_types_below(_context(MODULE).get_module(MODULE)))


def _types_below(parent: Any) -> Iterator[tuple[str, str]]:
    for node in parent.children():
        if isinstance(node, libyang.SLeaf | libyang.SLeafList):
            yield node.name(), node.type().basename()
        elif isinstance(node, libyang.SContainer | libyang.SList):
            yield from _types_below(node)


def _retyped(value: Any, leaf: Any, name: str = "") -> Any:
    """`value` with `leaf(name, value)` in place of each scalar."""
    if isinstance(value, Mapping):
        return {key: _retyped(member, leaf, key) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_retyped(member, leaf, name) for member in value]
    return leaf(name, value)


def _as_json_ietf(value: Any, base: str | None) -> Any:
    """A number where RFC 7951 wants a string, as that string, with all its digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or base not in _WIDE:
        return value
    return str(value) if isinstance(value, int) else digits_of(value)


def _tables(rows: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables as YANG containers: a named container is one row, a list has the key's parts in front."""
    (top,) = _context(SONIC_MODULE).get_module(SONIC_MODULE).children()
    assert isinstance(top, libyang.SContainer)
    for table in top.children():
        if table.name() in rows:
            yield table.name(), _table(table, mapping(rows[table.name()], table.name(), IntentError))


def _table(table: Any, rows: Mapping[str, Any]) -> dict[str, Any]:
    members = list(table.children())
    singles = {each.name(): each for each in members if isinstance(each, libyang.SContainer)}
    lists = {len(_key_names(each)): each for each in members if isinstance(each, libyang.SList)}
    found: dict[str, Any] = {}
    for key, fields in rows.items():
        place = f"{table.name()}|{key}"
        row = mapping(fields, place, IntentError)
        parts = key.split("|")
        if key in singles:
            found[key] = dict(_fields(singles[key], row))
        elif len(parts) in lists:
            each = lists[len(parts)]
            names = _key_names(each)
            found.setdefault(each.name(), []).append(dict(zip(names, parts, strict=True)) | dict(_fields(each, row)))
        else:
            raise IntentError(f"{place} is no key of this table, expected {_expected_keys(singles, lists)}")
    return found


def _key_names(each: libyang.SList) -> list[str]:
    keys = each.keys()
    return [leaf.name() for leaf in keys]


def _expected_keys(singles: Mapping[str, Any], lists: Mapping[int, Any]) -> str:
    shapes = ["|".join(f"<{name}>" for name in _key_names(each)) for each in lists.values()]
    return " or ".join([*sorted(singles), *shapes])


def _fields(parent: Any, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Fields in the types of the row's leaves; `name@` is a list; NULL keeps an empty row alive in redis."""
    types = dict(_types_below(parent))
    for field, value in row.items():
        name = field.removesuffix("@")
        if name == "NULL":
            continue
        if field.endswith("@") and isinstance(value, str):
            yield name, value.split(",") if value else []
        elif types.get(name) in _NARROW and isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
            yield name, max(-UINT64_MAX, min(int(value), UINT64_MAX))
        else:
            yield name, _as_json_ietf(value, types.get(name))


def _sentence(message: str) -> str:
    """libyang's message as one sentence that begins with the data path, or the schema's where data is missing."""
    message = message.removeprefix("failed to parse data tree: ").strip()
    if len(message) > _MESSAGE_MOST:
        message = f"{message[: _MESSAGE_MOST // 2]}...{message[-_MESSAGE_MOST // 2 :]}"
    found = dict(_LOCATION.findall(message)) | dict(_PATH.findall(message))
    said = _PATH.sub("", _LOCATION.sub("", message)).strip(" :.")
    place = found.get("ata") or found.get("chema")
    return f"{place}: {said}" if place else said
