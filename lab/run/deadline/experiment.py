"""`qclimb lab run deadline`: the share of deadlines met over the number of flows at once, earliest deadline first by
priorities against none. A trial a line in a file: a run that was stopped goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from lab.experiment.passes import Pass, Run, interleaved, measure
from lab.experiment.store import Lines, key_of
from lab.experiment.terminal import Teller
from lab.fabric.machine import cpu_now, library
from lab.fabric.star import Star, up
from lab.fabric.topology import FabricError
from lab.run.deadline.ideal import Flow, draw
from lab.run.settings import Deadline

ROOT = Path(__file__).parents[3]
LEAD_NS = 60_000_000
"""For connections and threads, before a trial's flows begin together."""
PORT = 5300
THRESHOLDS = tuple(24_500 * n for n in range(1, 8))
"""Bytes: they cut sizes of U[2, 198] KB into eight alike."""


def file_of(settings: Deadline) -> Path:
    """Where the trials of these settings and this library are kept."""
    decides: dict[str, Any] = {name: getattr(settings, name) for name in ("seed", "rate_mbps", "step_us")}
    decides |= {"thresholds": THRESHOLDS, "library": sha256(library().read_bytes()).hexdigest()}
    return settings.folder / f"trials-{key_of(decides, digits=12, sort_keys=False)}.jsonl"


SCHEMES = ("tcp", "pias", "qclimb", "edf")
TITLES = {
    "tcp": "plain TCP",
    "pias": "PIAS",
    "qclimb": "QCLIMB, no deadlines",
    "edf": "earliest deadline first by priority",
}


def policy_of(scheme: str, step_us: int) -> Policy | None:
    """None: without the library."""
    if scheme == "tcp":
        return None
    return Policy(
        generation=1,
        mode=Mode.PIAS if scheme == "pias" else Mode.QCLIMB,
        threshold_bytes=THRESHOLDS,
        dscp=default_dscp(8),
        slack_bytes=0,
        use_forest=False,
        deadline_step_us=step_us if scheme == "edf" else 0,
    )


class Bed:
    """One scheme's receiver and senders, waiting for trials."""

    def __init__(self, place: Star, scheme: str, port: int, run_dir: Path, step_us: int, stack: ExitStack) -> None:
        environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'gnmi-models'}", "QCLIMB_RUN": str(run_dir)}
        policy = policy_of(scheme, step_us)
        run_dir.mkdir()
        run_dir.chmod(0o755)
        if policy:
            (run_dir / "policy").write_bytes(encode_policy(policy))
            environment["LD_PRELOAD"] = str(library())
        app = [sys.executable, "-m", "lab.run.programs.deadline"]

        def start(host: str, *argv: str) -> subprocess.Popen[str]:
            program = subprocess.Popen(
                place.argv(host, [*app, *argv], environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(program.wait)
            stack.callback(program.kill)
            assert program.stdout
            if program.stdout.readline() != "ready\n":
                raise FabricError(f"the {argv[0]}ing application of {scheme} did not start")
            return program

        start(place.receiver, "receive", str(port))
        address = place.address(place.receiver)
        self._senders = [start(host, "send", address, str(port)) for host in place.senders]

    def run(self, flows: Sequence[Flow]) -> list[list[Any]]:
        """[size, deadline_us, fct_us, whether the deadline was taken] of each flow; fct 0: it never came."""
        at_ns = time.monotonic_ns() + LEAD_NS
        for n, sender in enumerate(self._senders):
            mine = [[i, f.size_bytes, f.deadline_us] for i, f in enumerate(flows) if i % len(self._senders) == n]
            assert sender.stdin
            sender.stdin.write(json.dumps({"at": at_ns, "flows": mine}) + "\n")
            sender.stdin.flush()
        rows: list[list[Any]] = [[flow.size_bytes, flow.deadline_us, 0, False] for flow in flows]
        for sender in self._senders:
            assert sender.stdout
            line = sender.stdout.readline()
            if not line:
                raise FabricError("a sending application ended in a trial")
            for number, start_ns, end_ns, taken in json.loads(line):
                rows[number][2:] = [max(0, end_ns - start_ns) // 1000, taken]
        return rows


def star_of(settings: Deadline) -> Star:
    """Four senders; a strict queue a priority at the port."""
    return Star(
        settings.prefix,
        ("tx1", "tx2", "tx3", "tx4"),
        settings.rate_mbps * 1_000_000,
        queue_packets=300,
        receiver="rx",
        dscps=default_dscp(8)[:-1],
        rto_min_ms=20,
        quickack=False,
        metrics_save=True,
    )


@contextmanager
def beds(settings: Deadline) -> Iterator[dict[str, Bed]]:
    """All schemes' applications, in one star; idle but for the scheme whose turn it is."""
    with ExitStack() as stack:
        place = stack.enter_context(up(star_of(settings)))
        runs = Path(stack.enter_context(TemporaryDirectory(prefix="qclimb-deadline-")))
        runs.chmod(0o755)
        yield {
            scheme: Bed(place, scheme, PORT + n, runs / scheme, settings.step_us, stack)
            for n, scheme in enumerate(SCHEMES)
        }


def kept(settings: Deadline) -> Lines:
    """The trials there are, a line each."""
    return Lines(file_of(settings), lambda row: name_of(row["trial"], row["flows"], row["scheme"]))


def name_of(trial: int, count: int, scheme: str) -> str:
    """Of a trial's line."""
    return f"trial {trial}, {count} flows, {scheme}"


def wanted(settings: Deadline) -> list[Pass[int]]:
    """In order: rounds over all numbers of flows, the order of schemes rotated."""
    points = [(count, SCHEMES) for count in settings.flows]
    return [
        Pass(count, scheme, trial, name_of(trial, count, scheme))
        for count, scheme, trial in interleaved(points, range(settings.trials))
    ]


def run_deadline(settings: Deadline, say: Teller) -> list[dict[str, Any]]:
    """Runs what is missing; all trials."""
    if os.geteuid() != 0:
        raise FabricError("the star needs root, for it makes network namespaces; run it with sudo")

    @contextmanager
    def bench(missing: Sequence[Pass[int]]) -> Iterator[Run[Pass[int], dict[str, Any]]]:
        with beds(settings) as there:
            yield lambda one, progress: trial_of(settings, there[one.scheme], one)

    passes = wanted(settings)
    names = {one: one.name for one in passes}
    return list(measure(passes, names, kept(settings), bench, say).values())


def trial_of(settings: Deadline, bed: Bed, one: Pass[int]) -> dict[str, Any]:
    """Runs one trial under one scheme: its line."""
    flows = draw(one.point, settings.seed, one.repeat, settings.rate_mbps * 1_000_000)
    before = cpu_now()
    rows = bed.run(flows)
    idle = before.idle_share(cpu_now())
    return {"trial": one.repeat, "flows": one.point, "scheme": one.scheme, "idle": round(idle, 3), "rows": rows}
