"""The lab's floors: an import goes down, never up, and never in a circle."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLOORS = (
    {"cli"},
    {"run", "figures"},
    {"models", "record"},
    {"workload"},
    {"control", "sim"},
    {"experiment", "fabric", "sizes"},
    {"build", "scheduler"},
)
"""Rooms, from the top; those of one floor do not know each other."""
ONE_ROOM = {"lab/sim/engine": "lab/sim"}
"""The folder of the engine's sources, and whose they are."""
FILES = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
         for path in (ROOT / "lab").rglob("*.py")}  # fmt: skip
FLOOR_OF = {room: number for number, rooms in enumerate(reversed(FLOORS)) for room in rooms}


def imported(path: Path) -> set[str]:
    """Our modules that a file imports, lazily or not, but for what only type checkers read."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in FILES else node.module
                      for alias in node.names}  # fmt: skip
    return found


@cache  # asked for by tests, not by who but collects them: it takes seconds
def used_by_each() -> dict[str, set[str]]:
    """Of each file of the lab, what it imports."""
    return {name: imported(path) for name, path in FILES.items()}


def room(module: str) -> str:
    """The room of a module of the lab."""
    return module.split(".")[1]


def test_each_room_has_a_floor() -> None:
    assert {room(name) for name in FILES if name != "lab"} == set(FLOOR_OF)


def test_no_import_goes_up_or_to_a_neighbour() -> None:
    wrong = [
        f"{name} imports {used}"
        for name, all_used in used_by_each().items()
        for used in all_used
        if used.startswith("lab.") and room(used) != room(name) and FLOOR_OF[room(used)] >= FLOOR_OF[room(name)]
    ]
    assert not wrong


def test_no_files_import_each_other_in_a_circle() -> None:
    assert (
        circle({name: {used for used in all_used if used in FILES} for name, all_used in used_by_each().items()}) == []
    )


def test_no_folders_import_each_other_in_a_circle() -> None:
    folder_of = {name: str(path.parent.relative_to(ROOT)) for name, path in FILES.items()}
    folder_of = {name: ONE_ROOM.get(folder, folder) for name, folder in folder_of.items()}
    folders: dict[str, set[str]] = {folder: set() for folder in folder_of.values()}
    for name, all_used in used_by_each().items():
        folders[folder_of[name]] |= {folder_of[used] for used in all_used if used in FILES} - {folder_of[name]}
    assert circle(folders) == []


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One of its circles; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
