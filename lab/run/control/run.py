"""The control loop against a live fabric: one pass of changing traffic, an operator's program, gates.

The operator's program looks at hosts' histograms every few seconds. Where they go on differing from what the
thresholds in force were computed from, it has thresholds computed from the newest, and rolls them out. Later it errs,
twice (`mistakes`). What it then asks for is within the contract, so nothing refuses it. From there on nobody touches
anything: the orchestrator's gates have to see it, and undo it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qclimb.histogram import SizeHistogram
from rich.console import Console

from lab.control.operator import Control
from lab.control.rest import NetnsRest
from lab.experiment.store import replace_text
from lab.experiment.terminal import Teller
from lab.fabric import Topology
from lab.run.control.traffic import BEFORE, SERVICES, changing, steady
from lab.run.settings import Control as Settings
from lab.workload.passes import PassResult, run_pass
from lab.workload.programs import WorkloadError, build_applications
from lab.workload.schemes import Scheme
from lab.workload.testbed import RECORDING_SEED, up

PIAS = Scheme("pias", "PIAS", "pias")
FIRST = "before"
FLOWS_LEAST = 300
"""Of a histogram; by fewer nothing is concluded."""
LOOK_S = 1.0
RECORDED_S = 10.0
"""Each label's flows are those of so many seconds."""
IN_A_ROW = 4
"""So many labels must differ before thresholds follow: one burst is no other traffic."""
ENDED = {"done", "failed", "rolled-back"}
HEALTH = "health"
"""Who begins a rollout that undoes another one."""


@dataclass(frozen=True)
class Mistake:
    """A revision that is allowed and bad: what differs from the one in force, and how it is rolled out."""

    name: str
    why: str
    body: Mapping[str, Any]
    pace: Mapping[str, Any]


def mistakes(soak_s: float) -> tuple[Mistake, ...]:
    """The operator's, in order."""
    past_all_flows = [2**30 + number for number in range(PIAS.priorities - 1)]
    starved = [0.02, *[None] * (PIAS.priorities - 1)]
    return (
        Mistake(
            "thresholds of 1 GiB",
            "thresholds are too large by far: no flow is ever served later, small flows wait behind large ones",
            {"thresholds": past_all_flows},
            {},
        ),
        Mistake(
            "2 % for the first queue",
            "the first queue gets at most 2 % of a port: small flows are served last, in effect",
            {"max_share": starved},
            {"waves": [0.01], "soak_s": soak_s},
        ),
    )


@dataclass
class Seen:
    """What was seen, in seconds since the traffic's time 0."""

    settings: dict[str, Any]
    events: list[tuple[float, str, str]] = field(default_factory=list)
    """When, what (change, seen, in force, bad, undone), and what is to be said of it."""
    differences: list[tuple[float, float]] = field(default_factory=list)
    """When, and how far hosts' sizes were from those that the thresholds in force are of."""
    thresholds: dict[str, list[int]] = field(default_factory=dict)
    felt: list[tuple[float, float]] = field(default_factory=list)
    """When, and what the orchestrator knew of hosts' small flows: their packets' stretch (`/v1/felt`)."""
    flows: list[tuple[float, int, float]] = field(default_factory=list)
    """Of each flow that ended: when it was due, its bytes, its slowdown."""
    failures: dict[str, int] = field(default_factory=dict)
    idle_share: float = 0.0
    late_share: float = 0.0

    def first(self, what: str, after_s: float = 0.0) -> float | None:
        """When it happened first, after a time."""
        return next((at for at, name, _ in self.events if name == what and at >= after_s), None)

    def about(self, what: str) -> str:
        """What was said of it last."""
        return next((about for _, name, about in reversed(self.events) if name == what), "")


def difference(one: SizeHistogram, other: SizeHistogram) -> float:
    """The largest difference of both distribution functions (Kolmogorov and Smirnov's)."""
    buckets = sorted({*one.counts, *other.counts})
    worst, upto = 0.0, [0, 0]
    for bucket in buckets:
        upto = [count + of.counts.get(bucket, 0) for count, of in zip(upto, (one, other), strict=True)]
        worst = max(worst, abs(upto[0] / one.flows - upto[1] / other.flows))
    return worst


class Operator:
    """What an operator's program does beside the traffic, in a thread of its own."""

    def __init__(self, control: Control, rest: NetnsRest, settings: Settings, seen: Seen, say: Teller) -> None:
        self.control, self.rest, self.settings, self.seen, self._say = control, rest, settings, seen, say
        self.failed: BaseException | None = None
        self._ends = threading.Event()
        self._begun_ns = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begins(self, start_ns: int) -> Sequence[Any]:
        """The traffic's time 0, CLOCK_MONOTONIC."""
        self._begun_ns = start_ns
        self._thread.start()
        return ()

    def ends(self) -> None:
        """The traffic has ended."""
        self._ends.set()
        self._thread.join(timeout=30)

    def check(self) -> None:
        """WorkloadError where the program failed."""
        if self.failed:
            raise WorkloadError(f"the operator's program failed: {self.failed!r}") from self.failed

    @property
    def now_s(self) -> float:
        """Since time 0."""
        return (time.monotonic_ns() - self._begun_ns) / 1e9

    def note(self, what: str, about: str = "", at_s: float | None = None) -> None:
        """An event."""
        at_s = self.now_s if at_s is None else at_s
        self.seen.events.append((round(at_s, 2), what, about))
        self._say(f"{at_s:6.1f} s of traffic: {what}{': ' if about else ''}{about}")

    def _run(self) -> None:
        try:
            self._follow(self._sizes(FIRST))
        except BaseException as error:
            self.failed = error

    def _sizes(self, label: str) -> SizeHistogram:
        found = self.control.statistics(label)
        return SizeHistogram.from_json(found["histogram"]) if found["flows"] else SizeHistogram()

    def _follow(self, known: SizeHistogram) -> None:
        number, begun_s, label, errs, differ = 0, self.now_s, "", list(mistakes(self.settings.soak_s)), 0
        err_s = self.settings.bad_s
        while not self._ends.wait(LOOK_S):
            now_s = self.now_s
            if now_s >= self.settings.before_s and self.seen.first("change") is None:
                self.note("change", "WebSearch's sizes end, DataMining's begin", self.settings.before_s)
            if errs and now_s >= err_s and "in force" in self.seen.thresholds:
                self._err(errs.pop(0))
                err_s = self.now_s + self.settings.calm_s
                continue
            if (label and now_s - begun_s < RECORDED_S) or now_s >= self.settings.bad_s:
                continue
            found = self._sizes(label) if label else SizeHistogram()
            if found.flows >= FLOWS_LEAST:
                far = difference(found, known)
                self.seen.differences.append((round(now_s, 2), round(far, 4)))
                differ = differ + 1 if far > self.settings.differs else 0
                if differ == 1:
                    self.note("seen", f"hosts' sizes differ by {far:.2f} from those of the thresholds in force")
                if differ == IN_A_ROW:
                    self._roll_out(label, "in force")
                    known, differ = found, 0
            number, begun_s = number + 1, self.now_s
            label = f"seconds-{number}"
            self.control.record(label)

    def _roll_out(self, label: str, what: str) -> None:
        made = self.control.revise(PIAS.revision("optimise", self.settings.load, label))
        self.seen.thresholds[what] = [int(each) for each in made["threshold_bytes"]]
        self.control.roll_out(int(made["id"]))
        self.note(what, f"revision {made['id']}, the first threshold at {made['threshold_bytes'][0]} bytes")

    def _err(self, mistake: Mistake) -> None:
        """Rolls a bad revision out, and then only looks, until its traffic ends or the mistake is undone."""
        policy = self.rest.get("/v1/state")["policy"]
        body = {**PIAS.revision(policy["threshold_bytes"], self.settings.load), **mistake.body}
        made = self.rest.post("/v1/revisions", body)
        number = self.rest.post("/v1/rollouts", {"revision": made["id"], **mistake.pace})["id"]
        self.note("bad", f"revision {made['id']}, {mistake.name}: {mistake.why}")
        while not self._ends.wait(0.5):
            of: Mapping[str, Any] = self.rest.get(f"/v1/rollouts/{number}")
            if of["phase"] in ("failed", "rolled-back"):
                self.note("undone", str(of["error"]))
                return
            last = self.rest.get("/v1/state")["last_rollout"]
            if last["id"] > number and last["phase"] in ENDED:
                self.note("undone", self._why_undone(number, last))
                return

    def _why_undone(self, number: int, by: Mapping[str, Any]) -> str:
        """As the audit log has it."""
        notes = [note for note in self.rest.get("/v1/audit") if note["actor"] == HEALTH]
        if by["created_by"] != HEALTH or by["phase"] != "done" or not notes:
            raise WorkloadError(f"rollout {by['id']} by {by['created_by']} {by['phase']}, expected one by {HEALTH}")
        return next(
            str(note["subject"]).partition(": ")[2] for note in notes if note["subject"].startswith(f"{number} ")
        )


def run_control(settings: Settings, console: Console) -> Seen:
    """The experiment; the folder gets seen.json and the programs' output. The fabric goes, whatever happens."""
    say = Teller(console)
    build_applications()
    seen = Seen({name: str(v) if isinstance(v, Path) else v for name, v in asdict(settings).items()})
    with up(Topology(hosts_per_leaf=settings.hosts_per_leaf), settings.prefix, settings.folder, say) as (
        testbed,
        fabric,
        rest,
    ):
        ground, control, hosts = testbed.ground, testbed.control, list(fabric.hosts)
        rate_bps = ground.host_rate_bps
        testbed.services = SERVICES
        testbed.record_trace(
            steady(BEFORE, settings.load, RECORDING_SEED, settings.recorded_s, hosts, rate_bps), FIRST, settings.load
        )
        seen.thresholds["before"] = testbed.decide_thresholds(settings.load)
        testbed.bring_into_force(PIAS, settings.load, seen.thresholds["before"], None)
        trace = changing(settings.load, settings.seed, settings.before_s, settings.after_s, hosts, rate_bps)
        say(f"{len(trace.flows)} flows over {trace.seconds:.0f} s, DataMining's from {settings.before_s:.0f} s on")
        operator = Operator(control, rest, settings, seen, say)

        def look(_: float) -> None:
            operator.check()

        result = run_pass(
            ground, trace, "control", settings.folder / "pass", {}, SERVICES, look, beside=operator.begins
        )
        operator.ends()
        operator.check()  # it may have failed after the last look
        _take(seen, result)
        epoch = time.time() - operator.now_s
        seen.felt = [(round(each["at"] - epoch, 2), each["stretch"]) for each in rest.get("/v1/felt")]
        with (settings.folder / "orchestrator.log").open("wb") as log:
            log.write((fabric.directory / "logs" / "orchestrator.log").read_bytes())
    replace_text(settings.folder / "seen.json", json.dumps(asdict(seen), indent=1) + "\n")
    return seen


def _take(seen: Seen, result: PassResult) -> None:
    seen.failures, seen.idle_share, seen.late_share = dict(result.failures), result.idle_share, result.late_share
    columns = zip(result.due_us, result.bytes, result.fct_us, result.alone_us, strict=True)
    seen.flows = [(due / 1e6, size, fct / alone) for due, size, fct, alone in columns if fct == fct]
