"""CONTRIBUTING's map is true: arrows between folders, and floors within them, are those of the imports."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {name: ROOT / name for name in ("hostlib", "switchd", "orchestrator", "lab", "bench")}
FOLDERS["qclimb"] = ROOT / "gnmi-models" / "qclimb"
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## The map", 1)[1].split("\n## ", 1)[0]
ARROWS = [
    (source, target)
    for sources, targets in re.findall(r"`([\w/, ]+) -> ([\w/, ]+)`", MAP)
    for source in sources.split(", ")
    for target in targets.split(", ")
]
IMPORT = re.compile(r"^[ ]*(?:import ([\w.]+)|from (\.*)([\w.]*) import (\([^)]*\)|[^#\n]+))", re.MULTILINE)


def modules(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Each file's path from the folder's name on, without suffix, and as such paths what it imports of ours."""
    for path in sorted(FOLDERS[folder].rglob("*.py")):
        inside = (folder, *path.relative_to(FOLDERS[folder]).with_suffix("").parts)
        used = []
        for plain, dots, base, names in IMPORT.findall(path.read_text(encoding="utf-8")):
            parts = [*inside[: len(inside) - len(dots)], *filter(None, base.split("."))] if dots else base.split(".")
            if plain:
                used.append(plain.replace(".", "/"))
            elif len(parts) > 1:
                used.append("/".join(parts))
            else:
                used += [f"{parts[0]}/{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)]
        yield "/".join(inside), [one for one in used if one.split("/")[0] in FOLDERS]


def is_within(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


def test_each_import_between_folders_is_an_arrow_of_the_map_and_each_arrow_an_import() -> None:
    unused, missing = set(ARROWS), []
    for folder in FOLDERS:
        for path, all_used in modules(folder):
            for used in all_used:
                if is_within(used, folder):
                    continue
                drawn = {arrow for arrow in ARROWS if is_within(path, arrow[0]) and is_within(used, arrow[1])}
                unused -= drawn
                missing += [] if drawn else [f"{path} imports {used}"]
    assert (missing, unused) == ([], set())


@pytest.mark.parametrize("folder", ["switchd", "orchestrator", "lab"])
def test_the_floors_of_the_map_are_there_and_no_import_runs_up(folder: str) -> None:
    (row,) = re.findall(rf"^\| `{folder}/` \|.*\| (.+) \|$", MAP, re.MULTILINE)
    floors = [re.findall(r"`(\w+)(?:\.py)?`", cell) for cell in row.split(" · ")]
    floor_of = {room: number for number, rooms in enumerate(floors) for room in rooms}
    assert len(floors) > 5
    assert [
        room
        for room in floor_of
        if not (FOLDERS[folder] / room).is_dir() and not (FOLDERS[folder] / f"{room}.py").is_file()
    ] == []
    upward = []
    for path, all_used in modules(folder):
        for used in all_used:
            rooms = [one.split("/")[1] for one in (path, used) if is_within(one, folder) and "/" in one]
            if len(rooms) == 2 and floor_of.get(rooms[1], len(floors)) < floor_of.get(rooms[0], 0):
                upward.append(f"{path} imports {used}")
    assert upward == []
