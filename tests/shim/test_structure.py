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
    assert "optax/line" in found["optax/turn"] and "optax/turn" in found["optax/withheld"]  # nm was read rightly
    assert upward(found) == []
    TopologicalSorter(found).prepare()


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_only_intercepted_calls_need_libcs():
    """The lazy real() starts the library, which needs nearly every file: who is called from there may not call it."""
    assert {room(file) for file, others in needs().items() if "start" in others} == {"calls"}
    assert {room(file) for file, others in includes().items() if "calls/real" in others} == {"calls"}
