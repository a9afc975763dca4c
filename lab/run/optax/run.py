"""`qclimb lab run optax`: OPTAX at receivers against fair sharing, resumable; a report beside the paper's numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy
from rich.console import Console

from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Store, as_json, key_of
from lab.experiment.terminal import Progress, Teller
from lab.fabric import FabricError
from lab.fabric.machine import library, tagger_objects
from lab.fabric.star import Star, up
from lab.run.optax.blocks import BLOCK_POINTS, BlockResult, disks, run_blocks
from lab.run.optax.blocks import programs as block_programs
from lab.run.optax.points import Point, points, scheduled
from lab.run.optax.tasks import Result, Scheme, build_application, run, senders
from lab.run.settings import Optax
from lab.workload.schemes import by_of, name_by

SMALL_COFLOW_BYTES = 1 << 20
EARLY_BYTES = 64 << 10
FIRST_DSCP, LAST_DSCP = 47, 19
SENDERS, BUFFER_PACKETS = 8, 300
ATTEMPTS = 2
RUNS = {"base": 5, "bulk": 3, "slow": 3}
"""Of each point of these figures; OTHER_RUNS of the others."""
OTHER_RUNS = 2
BLOCKS = "blocks"


def runs_of(settings: Optax, figure: str) -> int:
    """How often each point of a figure is measured."""
    return 2 if settings.quick else settings.runs or RUNS.get(figure, OTHER_RUNS)


def only(settings: Optax) -> tuple[str, ...]:
    """The figures that are wanted."""
    return ("base",) if settings.quick else settings.only


def schemes(settings: Optax) -> dict[str, Scheme]:
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
            Scheme(name_by("optax", "kernel"), policy=_two_priorities(SMALL_COFLOW_BYTES, optax=True)),
            Scheme("optax-learned", True, observe | {"QCLIMB_OPTAX": "on"}, observe),
            Scheme("priority", True, marks, marks),
            Scheme("optax-priority", True, marks | told, marks),
            Scheme("priority-64k", True, early, early),
            Scheme("optax-priority-64k", True, early | told, early),
        )
    }


def _policy(settings: Optax, threshold_bytes: int) -> str:
    path = settings.folder.resolve() / f"priority-{threshold_bytes}.policy"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_policy(_two_priorities(threshold_bytes)))
    path.chmod(0o644)
    return str(path)


def _two_priorities(threshold_bytes: int, optax: bool = False) -> Policy:
    return Policy(1, Mode.PIAS, (threshold_bytes,), (FIRST_DSCP, LAST_DSCP), 0, optax=optax)


def star_of(settings: Optax, is_split: bool) -> Star:
    """Eight senders and a receiver; two queues by priority at its port, or one. Hosts send at the port's rate."""
    return Star(
        settings.prefix,
        tuple(f"s{n + 1}" for n in range(SENDERS)),
        settings.rate_mbps * 10**6,
        BUFFER_PACKETS,
        dscps=(FIRST_DSCP,) if is_split else (),
        rto_min_ms=10,
        hosts_shaped=True,
    )


def described(star: Star) -> dict[str, Any]:
    """What a key says of a star, in the words and the order of the first results."""
    first = star.dscps[0] if star.dscps else None
    words = {"prefix": star.prefix, "senders": len(star.senders), "rate_bps": star.rate_bps}
    return words | {"buffer_packets": star.queue_packets, "first_dscp": first}


def key(decides: list[Any]) -> str:
    """Names a run by what decides it: tasks, scheme, star and the binaries."""
    return key_of(decides, digits=16, sort_keys=False)


def has_two_queues(one: Pass[Point]) -> bool:
    """Figure 13 has priority queues at the port, the others one queue."""
    return one.point.figure == "fig13"


Found = dict[Point, dict[str, list[Result]]]


def run_optax(settings: Optax, console: Console) -> Found:
    """Measures what is missing; of each point what was measured under all its schemes, run by run."""
    known, at_most = schemes(settings), max(runs_of(settings, figure) for figure in (*RUNS, "others"))
    asked = [scheduled(point, settings.by) for point in points() if point.figure in only(settings)]
    figures = [point for point in asked if len(point.schemes) > 1]
    if not figures and "library" not in settings.by:
        raise FabricError(f"--by kernel: {', '.join(only(settings))} are the library's alone, expected another figure")
    wanted = [
        Pass(point, scheme, number, f"{point.figure} {point.x}, {scheme}, run {number + 1}")
        for point, scheme, number in interleaved([(point, point.schemes) for point in figures], range(at_most))
        if number < runs_of(settings, point.figure)
    ]
    programs = {"library": [_digest(library())], "kernel": []}
    if "kernel" in settings.by:
        programs["kernel"] = [_digest(path) for path in tagger_objects()]
    bare = [_digest(build_application())]

    def name(one: Pass[Point]) -> str:
        tasks = [asdict(task) for task in one.point.tasks(one.repeat)]
        used = bare if one.scheme == "fair" else bare + programs[by_of(one.scheme)]
        return key([one.repeat, one.scheme, tasks, described(star_of(settings, has_two_queues(one))), used])

    @contextmanager
    def bench(missing: Sequence[Pass[Point]]) -> Iterator[Run[Pass[Point], Result]]:
        with up(star_of(settings, has_two_queues(missing[0]))) as star:
            yield lambda one, progress: _attempt(star, known[one.scheme], one.point, one.repeat)

    names = {one: name(one) for one in wanted}
    store = Store(settings.folder, *as_json(Result.from_json, Result.to_json), room="runs")
    measured = measure(wanted, names, store, bench, Teller(console), together=has_two_queues, is_stored=settings.stored)
    there = {(one.point, one.scheme, one.repeat) for one in measured}
    found: Found = {point: {scheme: [] for scheme in point.schemes} for point in figures}
    for one, result in measured.items():
        if all((one.point, scheme, one.repeat) in there for scheme in one.point.schemes):
            found[one.point][one.scheme].append(result)
    return {point: runs for point, runs in found.items() if all(runs.values())}


BlocksFound = dict[str, dict[str, list[BlockResult]]]
"""By point's name and scheme."""


def run_all_blocks(settings: Optax, console: Console) -> BlocksFound:
    """Figures 15 and 16, where they are wanted: measures what is missing."""
    if BLOCKS not in only(settings) or "library" not in settings.by:
        return {}
    known, star = schemes(settings), star_of(settings, is_split=True)
    used = [_digest(path) for path in [*block_programs(), library()]]
    cases = [(name, wanted) for name, (_, wanted) in BLOCK_POINTS.items()]
    wanted = [
        Pass(point, scheme, number, f"{point}, {scheme}, run {number + 1}")
        for point, scheme, number in interleaved(cases, range(runs_of(settings, BLOCKS)))
    ]

    def name(one: Pass[str]) -> str:
        blocks = asdict(BLOCK_POINTS[one.point][0])
        return key([BLOCKS, one.repeat, one.scheme, blocks, described(star), used[: 2 if one.scheme == "fair" else 3]])

    @contextmanager
    def bench(missing: Sequence[Pass[str]]) -> Iterator[Run[Pass[str], BlockResult]]:
        def run(one: Pass[str], progress: Progress) -> BlockResult:
            blocks = BLOCK_POINTS[one.point][0]
            with disks(star, known[one.scheme], blocks.servers):
                return run_blocks(star, known[one.scheme], blocks)

        with up(star):
            yield run

    names = {one: name(one) for one in wanted}
    store = Store(settings.folder, *as_json(lambda values: BlockResult(**values), asdict), room="runs")
    found: BlocksFound = {}
    for one, result in measure(wanted, names, store, bench, Teller(console), is_stored=settings.stored).items():
        found.setdefault(one.point, {}).setdefault(one.scheme, []).append(result)
    return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
