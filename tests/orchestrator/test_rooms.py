"""Rooms stand on floors: an import runs down, and no two files import one another."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

HERE = Path(__file__).parents[2]
FLOORS = (
    {"cli", "operate"},
    {"serve", "workers"},
    {"init", "copies", "rest"},
    {"watch"},
    {"ingest"},
    {"metrics"},
    {"fabric"},
    {"models"},
    {"plan"},
    {"store"},
    {"page"},
    {"actors", "errors", "defaults", "logs", "listening", "environment"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
FROM_OUTSIDE = {
    "lab/cli/model": {"models"},
    "lab/models": {"models", "errors"},
    "bench": {"models", "plan"},
    "bench/rollout": {"fabric", "store"},
    "bench/ingest": {"rest", "store"},
    "lab/figures/pages/pfabric": {"plan"},
}
"""Who may import which rooms of it; everybody else meets it by processes and REST."""


def imported(file: Path) -> Iterator[str]:
    """The modules that a file imports anywhere in it, by their whole names."""
    package = list(file.relative_to(HERE).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            place = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                named = f"{place}.{alias.name}"
                yield named if (HERE / named.replace(".", "/")).with_suffix(".py").exists() else place


def sources(folder: str) -> list[Path]:
    return sorted((HERE / folder).rglob("*.py"))


def room_of(module: str) -> str:
    return module.split(".")[1]


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(HERE).with_suffix("").parts)


def test_no_import_runs_up():
    upward = [
        f"{file.relative_to(HERE)} -> {module}"
        for file in sources("orchestrator")
        if file.name != "__init__.py"
        for module in imported(file)
        if module.startswith("orchestrator.") and FLOOR[room_of(module)] < FLOOR[room_of(name_of(file))]
    ]
    assert not upward


def test_no_two_files_import_one_another():
    graph = {name_of(file): set(imported(file)) for file in sources("orchestrator")}
    order = TopologicalSorter({name: uses & graph.keys() for name, uses in graph.items()})
    assert len(list(order.static_order())) == len(graph) > 40  # CycleError names a circle


def test_plans_are_pure():
    known = {module.split(".")[0] for file in sources("orchestrator/plan") for module in imported(file)}
    assert known <= {
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "operator",
        "typing",
        "numpy",
        "qclimb",
        "orchestrator",
    }


def test_only_one_file_speaks_gnmi():
    speaks = [file.name for file in sources("orchestrator") if any("pygnmi" in module for module in imported(file))]
    assert speaks == ["session.py"]


def test_others_import_no_more_of_it_than_is_theirs():
    for folder in ("lab", "bench", "hostlib", "switchd", "gnmi-models"):
        for file in sources(folder):
            place = str(file.relative_to(HERE))
            allowed = {room for theirs, rooms in FROM_OUTSIDE.items() if place.startswith(theirs) for room in rooms}
            found = {room_of(module) for module in imported(file) if module.startswith("orchestrator.")}
            assert found <= allowed, place
