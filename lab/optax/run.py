"""`qclimb lab run optax`: OPTAX at receivers against fair sharing, resumable; a report beside the paper's numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy
from rich.console import Console

from lab.fabric import FabricError
from lab.fabric.machine import library
from lab.optax.blocks import BLOCK_POINTS, BlockResult, Blocks, disks, programs, run_blocks
from lab.optax.points import Point, points
from lab.optax.star import Star, up
from lab.optax.tasks import Result, Scheme, build_application, run, senders

SMALL_COFLOW_BYTES = 1 << 20
EARLY_BYTES = 64 << 10
FIRST_DSCP, LAST_DSCP = 47, 19
ATTEMPTS = 2
RUNS = {"base": 5, "bulk": 3, "slow": 3}
"""Of each point of these figures; OTHERS of the others."""
OTHERS = 2
BLOCKS = "blocks"


@dataclass(frozen=True)
class OptaxSettings:
    """What is measured, how often."""

    runs: int | None = None
    """None: as RUNS says."""
    only: tuple[str, ...] = ()
    """Figures; all where empty."""
    prefix: str = "ox"
    rate_mbps: int = 100
    folder: Path = Path("lab-results/optax")
    stored: bool = False
    """Only what an earlier run left: nothing is measured."""

    def runs_of(self, figure: str) -> int:
        """How often each point of a figure is measured."""
        return self.runs or RUNS.get(figure, OTHERS)


def schemes(settings: OptaxSettings) -> dict[str, Scheme]:
    """How applications run. Priorities: two, by OPTAX's 1 MiB, that the senders' library marks."""
    observe = {"QCLIMB_MODE": "observe"}
    marks = {"QCLIMB_POLICY": _policy(settings, SMALL_COFLOW_BYTES)}
    early = {"QCLIMB_POLICY": _policy(settings, EARLY_BYTES)}
    told = {"QCLIMB_OPTAX": str(settings.rate_mbps)}
    return {
        each.name: each
        for each in (
            Scheme("fair"),
            Scheme("observe", True, observe, observe),
            Scheme("optax", True, observe | told, observe),
            Scheme("optax-learned", True, observe | {"QCLIMB_OPTAX": "on"}, observe),
            Scheme("priority", True, marks, marks),
            Scheme("optax-priority", True, marks | told, marks),
            Scheme("priority-64k", True, early, early),
            Scheme("optax-priority-64k", True, early | told, early),
        )
    }


def _policy(settings: OptaxSettings, threshold_bytes: int) -> str:
    path = settings.folder.resolve() / f"priority-{threshold_bytes}.policy"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_policy(Policy(1, Mode.PIAS, (threshold_bytes,), (FIRST_DSCP, LAST_DSCP), 0)))
    path.chmod(0o644)
    return str(path)


def key_of(point: Point, scheme: str, number: int, star: Star) -> str:
    """Names a run by what decides it: tasks, scheme, star and the binaries."""
    binaries = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (build_application(), library())]
    if scheme == "fair":
        binaries.pop()
    decides = [number, scheme, [asdict(task) for task in point.tasks(number)], asdict(star), binaries]
    return hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]


def star_of(point: Point, settings: OptaxSettings) -> Star:
    """Figure 13 has priority queues at the port, the others one queue."""
    first = FIRST_DSCP if point.figure == "fig13" else None
    return Star(settings.prefix, rate_bps=settings.rate_mbps * 10**6, first_dscp=first)


Found = dict[Point, dict[str, list[Result]]]


def run_optax(settings: OptaxSettings, console: Console) -> Found:
    """Measures what is missing: runs outermost and schemes interleaved, so that a drift of the machine favours none."""
    wanted = [point for point in points() if not settings.only or point.figure in settings.only]
    known = schemes(settings)
    found: Found = {point: {scheme: [] for scheme in point.schemes} for point in wanted}
    for figures in (("fig13",), None):
        mine = [point for point in wanted if (point.figure == "fig13") == (figures is not None)]
        if mine:
            _measure(mine, settings, known, found, console)
    return {point: runs for point, runs in found.items() if all(runs.values())}


def _measure(
    mine: Sequence[Point], settings: OptaxSettings, known: dict[str, Scheme], found: Found, console: Console
) -> None:
    star = star_of(mine[0], settings)
    jobs = [
        (n, point, scheme) for point in mine for n in range(settings.runs_of(point.figure)) for scheme in point.schemes
    ]
    keys = {job: settings.folder / "runs" / f"{key_of(job[1], job[2], job[0], star)}.json" for job in jobs}
    missing = [job for job in jobs if not keys[job].is_file()]
    (settings.folder / "runs").mkdir(parents=True, exist_ok=True)
    if missing and not settings.stored:
        with up(star):
            for place, job in enumerate(missing):
                number, point, scheme = job
                console.print(
                    f"[{place + 1}/{len(missing)}] {point.figure} {point.x}, {scheme}, run {number + 1}",
                    highlight=False,
                )
                result = _attempt(star, known[scheme], point, number)
                _keep(keys[job], result.to_json())
    for job in jobs:
        number, point, scheme = job
        if not all(keys[number, point, name].is_file() for name in point.schemes):
            continue
        found[point][scheme].append(Result.from_json(json.loads(keys[job].read_text(encoding="utf-8"))))


def _keep(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(result), encoding="utf-8")
    beside.replace(path)


BlocksFound = dict[str, dict[str, list[BlockResult]]]
"""By point's name and scheme."""


def run_all_blocks(settings: OptaxSettings, console: Console) -> BlocksFound:
    """Figures 15 and 16, where they are wanted: measures what is missing."""
    if settings.only and BLOCKS not in settings.only:
        return {}
    known = schemes(settings)
    star = Star(settings.prefix, rate_bps=settings.rate_mbps * 10**6, first_dscp=FIRST_DSCP)
    binaries = [hashlib.sha256(path.read_bytes()).hexdigest() for path in [*programs(), library()]]

    def path_of(blocks: Blocks, scheme: str, number: int) -> Path:
        decides = [BLOCKS, number, scheme, asdict(blocks), asdict(star), binaries[: 2 if scheme == "fair" else 3]]
        name = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
        return settings.folder / "runs" / f"{name}.json"

    runs = range(settings.runs_of(BLOCKS))
    jobs = [(n, name, scheme) for n in runs for name, (_, wanted) in BLOCK_POINTS.items() for scheme in wanted]
    paths = {job: path_of(BLOCK_POINTS[job[1]][0], job[2], job[0]) for job in jobs}
    missing = [job for job in jobs if not paths[job].is_file()]
    if missing and not settings.stored:
        with up(star):
            for place, job in enumerate(missing):
                number, name, scheme = job
                console.print(f"[{place + 1}/{len(missing)}] {name}, {scheme}, run {number + 1}", highlight=False)
                blocks = BLOCK_POINTS[name][0]
                with disks(star, known[scheme], blocks.servers):
                    _keep(paths[job], run_blocks(star, known[scheme], blocks).to_json())
    found: BlocksFound = {}
    for job in jobs:
        if paths[job].is_file():
            stored = json.loads(paths[job].read_text(encoding="utf-8"))
            found.setdefault(job[1], {}).setdefault(job[2], []).append(BlockResult(**stored))
    return found


def _attempt(star: Star, scheme: Scheme, point: Point, number: int) -> Result:
    """A run; once again where the machine was too busy to start its processes in time."""
    for attempt in range(ATTEMPTS):
        try:
            with senders(star, scheme):
                return run(star, scheme, point.tasks(number))
        except FabricError:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError
