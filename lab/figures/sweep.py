"""Many points at once, by joblib: on this machine's cores, or on a cluster by Ray (lab.figures.cluster).

What is in the cache is not run again; each point is stored as soon as it comes, so that an interrupted sweep goes on
where it stopped, and sweeps that share a cache share the work. Here a point is a thread that waits for its engine, a
program of its own; on a cluster it is a task of Ray's, and the sweep alone writes to the cache.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from lab.experiment.store import Store
from lab.figures import points
from lab.figures.points import AnyExperiment, Point
from lab.sim import EngineError
from lab.sim.engine import program

ALL_CORES = -1


class Sweep(dict[Any, Point]):
    """Points by key."""

    computed = 0
    """How many were run and not read; points that have several keys count once."""


def cost(found: Iterable[Point]) -> str:
    """How many points there are, those with several keys once, and the processor time that their engines took."""
    distinct = {id(point): point for point in found}.values()
    seconds = sum(point.counters["cpu_seconds"] for point in distinct)
    took = f"{seconds / 60:.1f} CPU minutes" if seconds >= 60 else f"{seconds:.0f} CPU seconds"
    return f"{len(distinct)} points, {took}" if distinct else ""


def run_all(
    runs: Mapping[Any, AnyExperiment],
    folder: Path,
    jobs: int = ALL_CORES,
    progress: Callable[[int], None] = lambda done: None,
    cluster: str | None = None,
) -> Sweep:
    """All points, by key, in the order of `runs`; equal experiments once.

    `jobs`: side by side, ALL_CORES of this machine or of the cluster;
    `cluster`: Ray's address, as lab.figures.cluster has it; `progress` is told how many keys are done. Raises:
    SimulationError; OSError, which names the file that could not be written."""
    found = Sweep()
    keys: dict[str, list[Any]] = {}
    for key, experiment in runs.items():
        keys.setdefault(points.name_of(experiment), []).append(key)
    store = points.store(folder)

    def settle(name: str, point: Point | None) -> bool:
        if point is not None:
            found.update(dict.fromkeys(keys[name], point))
            progress(len(found))
        return point is not None

    try:
        waiting = [name for name in keys if not settle(name, store.find(name))]
        if waiting:
            program()  # builds it once and not in each task
        with _backend(jobs, cluster) if waiting else nullcontext():
            while waiting:
                later: list[str] = []  # claimed by another sweep, or just stored by one
                tasks = (delayed(_compute)(name, runs[keys[name][0]]) for name in _claimed(waiting, store, later))
                parallel = Parallel(return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1)
                with warnings.catch_warnings(), closing(parallel(tasks)) as computed:
                    warnings.filterwarnings("ignore", ".* still being processed", UserWarning)  # where one fails
                    for name, point in computed:
                        store.save(name, point)
                        found.computed += 1
                        settle(name, point)
                waiting = [name for name in later if not settle(name, store.find(name))]
                if waiting:
                    store.claim(waiting[0], wait=True)
    finally:
        store.close()
    ordered = Sweep({key: found[key] for key in runs})  # and not as the cache or the clock had them
    ordered.computed = found.computed
    return ordered


def _claimed(names: list[str], store: Store[Point], later: list[str]) -> Iterator[str]:
    """The names that this sweep is to compute, claimed one by one as tasks are handed out; others go to `later`."""
    for name in names:
        if not store.holds(name) and not store.claim(name):
            later.append(name)
        elif store.find(name) is not None:
            store.give_back(name)
            later.append(name)
        else:
            yield name


def _compute(name: str, experiment: AnyExperiment) -> tuple[str, Point]:
    here = points.name_of(experiment)
    if here != name:
        raise EngineError(
            f"{socket.gethostname()} has another version of the engine than the sweep: install the same qclimb on both"
        )
    return name, points.compute(experiment)


def _backend(jobs: int, cluster: str | None) -> Any:
    if cluster is None:
        return parallel_config(backend="threading", n_jobs=jobs)
    from lab.figures.cluster import on_cluster

    return on_cluster(cluster, jobs)
