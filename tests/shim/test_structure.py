"""How the library's files hang together, read from what the compiler made of them."""

import shutil
import subprocess
from graphlib import TopologicalSorter

import pytest
from stand import ROOT

SHIM = ROOT / "hostlib" / "shim"
OBJECTS = ROOT / "hostlib" / "build" / "shim"


def needs():
    """Of each C file, which others have the symbols that it lacks."""
    has, lacks = {}, {}
    for source in SHIM.glob("*.c"):
        lines = subprocess.run(
            ["nm", OBJECTS / f"{source.stem}.o"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        symbols = [line.split()[-2:] for line in lines]
        lacks[source.stem] = {name for kind, name in symbols if kind == "U"}
        has |= {name: source.stem for kind, name in symbols if kind.isupper() and kind != "U"}
    return {file: {has[name] for name in names & has.keys()} - {file} for file, names in lacks.items()}


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_no_file_needs_one_that_needs_it():
    found = needs()
    assert "line" in found["turn"] and "turn" in found["withheld"]  # nm was read rightly
    TopologicalSorter(found).prepare()  # raises CycleError, with the circle


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm (binutils)")
def test_only_intercepted_calls_need_libcs():
    """real() starts the library, which needs nearly every file: who is called from there may not call it."""
    assert {file for file, others in needs().items() if "start" in others and not file.startswith("call_")} == set()
