"""How the library's files hang together: by what they include, and by what the compiler made of them."""

import re
import shutil
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from stand import ROOT

SHIM = ROOT / "hostlib" / "shim"
OBJECTS = ROOT / "hostlib" / "build" / "shim"

FLOORS = (("base",), ("tell",), ("rules",), ("socket",), ("life",), ("boundary", "optax"), ("start",), ("calls",))
"""Rooms, from the lowest floor up. A file uses its own room and the floors below."""

FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
SOURCES = sorted(path.relative_to(SHIM) for path in SHIM.rglob("*.[ch]"))


def unit(file):
    """A header and the C file of its name are one."""
    return str(file.with_suffix(""))


def room(unit):
    return unit.split("/")[0]


def includes():
    """Of each unit, the library's others that it includes."""
    found = {unit(file): set() for file in SOURCES}
    for file in SOURCES:
        named = re.findall(r'^#include "([^"]+)"', (SHIM / file).read_text(), re.MULTILINE)
        found[unit(file)] |= {unit(Path(name)) for name in named if not name.startswith("../")} - {unit(file)}
    return found


def needs():
    """Of each C file, which others have the symbols that it lacks."""
    has, lacks = {}, {}
    for source in SHIM.rglob("*.c"):
        name = unit(source.relative_to(SHIM))
        lines = subprocess.run(
            ["nm", OBJECTS / f"{name}.o"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        symbols = [line.split()[-2:] for line in lines]
        lacks[name] = {symbol for kind, symbol in symbols if kind == "U"}
        has |= {symbol: name for kind, symbol in symbols if kind.isupper() and kind != "U"}
    return {file: {has[name] for name in names & has.keys()} - {file} for file, names in lacks.items()}


def upward(found):
    """What leads to a floor above, or to another room of the same floor."""
    return [
        f"{file} -> {other}"
        for file, others in found.items()
        for other in others
        if room(file) != room(other) and FLOOR_OF[room(other)] >= FLOOR_OF[room(file)]
    ]


def fields():
    """Of a connection, and of the facts of its flow."""
    text = (SHIM / "socket" / "connection.h").read_text()
    found = []
    for struct in ("flow_facts", "connection"):
        body = re.search(rf"^struct {struct} {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)[1]
        body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
        found += re.findall(r"(\w+)(?:\s*:\s*\d+|\[\w+\])?\s*[;,]", body)
    return found


def writers(sources):
    """Of each field, the units that change it."""
    found = {field: set() for field in fields()}
    place = r"(?:connection->(?:facts\.)?|\bfacts->)(\w+)"
    changed = re.compile(
        rf"{place}(?:\[\w+\])?\s*(?:(?:[-+|&]|<<|>>)?=(?!=)|\+\+|--)"
        rf"|(?:relaxed_set\(|atomic_(?:store|exchange|fetch_\w+|compare_exchange_\w+)\(&){place}"
        rf"|memcpy\(&?{place}"
    )
    for name, text in sources.items():
        for match in changed.finditer(re.sub(r"atomic_load(?:_explicit)?\(&|/\*.*?\*/", "(", text, flags=re.DOTALL)):
            field = match[1] or match[2] or match[3]
            if field in found:
                found[field].add(name)
    return found


def test_each_file_stands_in_a_room_of_a_floor():
    assert {room(unit(file)) for file in SOURCES} == FLOOR_OF.keys()


def test_what_leads_up_or_across_is_found():
    assert upward({"socket/drain": {"life/life"}}) == ["socket/drain -> life/life"]
    assert upward({"optax/line": {"boundary/flow"}}) == ["optax/line -> boundary/flow"]
    assert upward({"life/life": {"life/told", "socket/drain"}, "start": {"optax/line"}}) == []


def test_includes_lead_down_and_form_no_circle():
    found = includes()
    assert {"socket/drain", "boundary/look"} <= found["boundary/grant"]  # the lines were read rightly
    assert upward(found) == []
    TopologicalSorter(found).prepare()  # raises CycleError, with the circle


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_symbols_lead_down_and_form_no_circle():
    found = needs()
    assert "optax/rates" in found["optax/line"] and "optax/line" in found["optax/withheld"]  # nm was read rightly
    assert upward(found) == []
    TopologicalSorter(found).prepare()


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_only_intercepted_calls_need_libcs():
    """The lazy real() starts the library, which needs nearly every file: who is called from there may not call it."""
    assert {room(file) for file, others in needs().items() if "start" in others} == {"calls"}
    assert {room(file) for file, others in includes().items() if "calls/real" in others} == {"calls"}


def test_a_field_is_changed_in_one_file():
    sources = {}
    for file in SOURCES:
        sources[unit(file)] = sources.get(unit(file), "") + (SHIM / file).read_text()
    found = writers(sources)
    assert found["written"] == {"socket/written"}  # the lines were read rightly
    assert {"socket/loans", "socket/connection"} == found["lent"]
    others = {field: sorted(units - {"socket/connection"}) for field, units in found.items()}
    assert {field: units for field, units in others.items() if len(units) > 1} == {}


def test_a_second_writer_is_found():
    assert writers({"a": "connection->is_open = false;", "b": "(void)x; connection->is_open = true;"})["is_open"] == {
        "a",
        "b",
    }
    assert writers({"a": "relaxed_set(connection->written, 1); if (connection->lent == 2)"})["lent"] == set()
