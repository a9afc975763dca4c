"""Every configuration leaf of both YANG modules is in the one table of `qclimb.leaves`, and means the same there.

Nothing is sampled: all leaves, all their words and defaults; and of their values every small integer, both sides
of each bound, and every ASCII character at the ends of texts of every length that matters.
"""

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libyang
import pytest
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.leaves import CLASS, INTENT, PATH, PRIORITY, SPINE, Choice, Dscp, Leaf, Ports, Share, Text, Whole
from qclimb.schema import yang_directory
from qclimb.switch import IntentFields, QueueClass

GNMI, SONIC = "qclimb", "sonic-qclimb"
SAMPLES = Path(__file__).parent / "samples"
ROOMS = {
    GNMI: {
        "/config": INTENT,
        "/classes/class": (PRIORITY,),
        "/classes/class/config": (PRIORITY, *CLASS),
        "/paths/path": (SPINE,),
        "/paths/path/config": (SPINE, *PATH),
    },
    SONIC: {
        "/QCLIMB/global": INTENT,
        "/QCLIMB_CLASS/QCLIMB_CLASS_LIST": (PRIORITY, *CLASS),
        "/QCLIMB_PATH/QCLIMB_PATH_LIST": (SPINE, *PATH),
    },
}
OWN = re.compile(r"/(QCLIMB/global/(digest|version)|QCLIMB_COMMIT/.*|QCLIMB_PREVIOUS/.*)")
"""what no intent says: the marks of a whole one and of its version, and the daemon's own memory"""
CLASS_ROW = {"dscp": "1", "queue": "1"}


OF_MAPS = "it goes as a whole"
"""what SONiC's maps are held to, of which no intent says anything: tests/switchd/test_whole_maps.py"""


def context(module: str) -> libyang.Context:
    found = libyang.Context(str(yang_directory()))
    found.load_module(module)
    return found


CONTEXTS = {module: context(module) for module in (GNMI, SONIC)}


def told(module: str) -> Iterator[tuple[str, Any]]:
    """(path below the top container, schema node) of every leaf that can be configured."""

    def below(node: Any, path: str) -> Iterator[tuple[str, Any]]:
        for child in node.children():
            here = f"{path}/{child.name()}"
            if child.config_false() or OWN.fullmatch(here):
                continue
            if isinstance(child, libyang.SLeaf | libyang.SLeafList):
                yield here, child
            else:
                yield from below(child, here)

    (top,) = CONTEXTS[module].get_module(module).children()
    return below(top, "")


def leaf_of(module: str, path: str) -> Leaf:
    room, _, name = path.rpartition("/")
    named = {leaf.name if module == GNMI else leaf.field: leaf for leaf in ROOMS[module][room]}
    return named[name]


CASES = [(module, path, node) for module in ROOMS for path, node in told(module)]
EACH = pytest.mark.parametrize(("module", "path", "node"), CASES, ids=[f"{case[0]}:{case[1]}" for case in CASES])


def type_of(node: Any) -> Any:
    kind = node.type()
    while kind.basename() == "leafref":
        kind = kind.leafref_type()
    return kind


def is_key(node: Any) -> bool:
    return isinstance(node, libyang.SLeaf) and node.is_key()


@pytest.mark.parametrize("module", ROOMS)
def test_the_table_has_each_leaf_and_no_other(module: str) -> None:
    here = {path for path, _ in told(module)}
    rooms = ROOMS[module].items()
    assert here == {
        f"{room}/{leaf.name if module == GNMI else leaf.field}" for room, leaves in rooms for leaf in leaves
    }


@EACH
def test_types_words_and_defaults_are_the_same(module: str, path: str, node: Any) -> None:
    leaf, kind = leaf_of(module, path), type_of(node)
    match leaf.kind:
        case Whole(lowest, highest) if kind.basename() != "string":
            assert leaf.kind.is_wide == kind.basename().endswith("64")
            assert (lowest < 0) == (not kind.basename().startswith("u")) and lowest < highest
        case Whole():
            assert (module, is_key(node)) == (SONIC, True)  # SONiC's keys are text
        case Share():
            assert kind.basename() == "decimal64"
        case Choice(words):
            assert {each.name() for each in kind.all_enums()} == set(words)
        case Text() | Ports():
            assert kind.basename() == "string"
    if isinstance(node, libyang.SLeafList) or isinstance(leaf.kind, Ports):
        assert leaf.default == ()  # what is not there
    else:
        assert node.default() == leaf.default
    if leaf.field != "generation":  # a must asks for it instead, so that nothing at all is valid
        is_mandatory = isinstance(node, libyang.SLeaf) and node.mandatory()
        assert leaf.is_mandatory == (
            is_mandatory or leaf in (PRIORITY, SPINE)
        )  # keys, and their twins, which must equal them


@pytest.mark.parametrize(("of", "leaves"), [(QueueClass, CLASS), (IntentFields, INTENT)])
def test_a_dataclass_has_the_tables_fields_and_defaults(of: type, leaves: tuple[Leaf, ...]) -> None:
    fields = {field.name: field for field in dataclasses.fields(of)}
    for leaf in leaves:
        default = fields[leaf.field].default
        assert default in (leaf.default, dataclasses.MISSING) and not (leaf.is_mandatory and default is None)


def values(kind: Any) -> Iterator[Any]:
    """Every value of the kind's own form that could tell one rule from another."""
    if isinstance(kind, Whole):
        near = {bound + by for bound in (kind.lowest, kind.highest) for by in (-1, 0, 1)}
        yield from sorted({*range(-300, 301), *near, *(2**bits + by for bits in range(8, 66) for by in (-1, 0))})
    elif isinstance(kind, Share):
        yield from (f"{whole}.{part:09d}" for whole in (0, 1, 2) for part in (0, 1, 2, 10**8, 10**9 - 1))
        yield from ("-0.000000001", "0", "1", "0.5", "0.0000000001", "1.0000000001", "", ".5", "5.", "x", "1e0")
    elif isinstance(kind, Choice):
        yield from (word + more for word in (*kind.words, "") for more in ("", " ", "s", "\n"))
        yield from (word.upper() for word in kind.words)
    else:
        yield from ("a" * length for length in range(131))
        for sign in [*map(chr, range(1, 256)), "\u0663", "\u4e16"]:
            yield from (sign, f"a{sign}", f"a{sign}a")


@EACH
def test_yang_and_the_table_take_the_same_values(module: str, path: str, node: Any) -> None:
    kind = leaf_of(module, path).kind
    if module == SONIC and isinstance(kind, Dscp):
        kind = Whole(0, 63)  # what an earlier version stored is in no patch's way
    odd = (
        ["00", "07", "+1", "-0", "", " 1", "1\n"]
        if module == SONIC and isinstance(kind, Whole) and is_key(node)
        else []
    )
    for value in [*values(kind), *odd]:
        text = ",".join((value, "b")) if isinstance(kind, Ports) and module == SONIC else value
        if isinstance(kind, Ports) and module == SONIC and "," in value:
            continue  # it joins them there
        by_yang = is_valid(module, path, node, text)
        if isinstance(kind, Ports):
            by_table = is_taken(kind, [value, "b"] if value != "b" else ["b"], "from_json")
        elif module == SONIC and is_key(node) and isinstance(kind, Whole):
            by_table = is_taken_as_key(str(value))
        elif module == SONIC:
            by_table = is_taken(kind, str(value) if isinstance(kind, Whole) else value, "from_text")
        else:
            by_table = is_taken(kind, kind.to_json(value) if isinstance(kind, Whole) else value, "from_json")
        assert by_yang == by_table, value


def is_taken_as_key(key: str) -> bool:
    try:
        SwitchIntent.from_config_db({"QCLIMB": {"global": {"generation": "1"}}, "QCLIMB_CLASS": {key: CLASS_ROW}})
    except IntentError as error:
        return not str(error).startswith("QCLIMB_CLASS key")
    return True


def is_taken(kind: Any, value: Any, by: str) -> bool:
    try:
        getattr(kind, by)(value, "here")
    except IntentError:
        return False
    return True


def is_valid(module: str, path: str, node: Any, value: Any) -> bool:
    """Whether libyang takes a value of this leaf, whatever else must be there."""
    base = type_of(node).basename()
    told: Any = str(value) if base in ("uint64", "int64", "decimal64", "string") else value
    told = [told] if isinstance(node, libyang.SLeafList) else told
    for name in reversed(path.split("/")[1:]):
        if isinstance(node, libyang.SList):
            keys = {key.name(): sample(type_of(key)) for key in node.keys()}  # noqa: SIM118 - libyang's keys
            told = [{**keys, **told}]
        told, node = {name: told}, node.parent()
    tree = json.dumps({f"{module}:{module}": told})
    try:
        data = CONTEXTS[module].parse_data_mem(tree, "json", strict=True, parse_only=True, no_state=True)
    except libyang.LibyangError:
        return False
    if data is not None:
        data.free()
    return True


def sample(kind: Any) -> Any:
    return 0 if kind.basename() == "uint8" else "0"


@pytest.mark.parametrize(("module", "samples"), [(GNMI, "gnmi.json"), (SONIC, "config_db.json")])
def test_every_must_of_yang_is_broken_by_a_sample_that_python_refuses_too(module: str, samples: str) -> None:
    text = (yang_directory() / f"{module}.yang").read_text()
    refused = [str(bad["yang"]) for bad in json.loads((SAMPLES / samples).read_text())["bad"].values()]
    musts = re.findall(r'error-message\s+"([^"]+)"', text)
    musts += [f'Unique data leaf(s) "{leaves}"' for leaves in re.findall(r'unique\s+"([^"]+)"', text)]
    assert len(musts) == len(re.findall(r'^ +(must|unique) "', text, re.MULTILINE)) > 0
    assert [must for must in musts if not any(must in said for said in refused) and OF_MAPS not in must] == []
