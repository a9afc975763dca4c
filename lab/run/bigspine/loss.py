"""`qclimb lab run spineloss`: how long a pinned class's packets are lost when its spine is, over real TCP.

Three ways to lose a spine: its link goes down at the leaf; all its ports go down, so that leaves see no carrier; its
link to the other rack goes down, so that all the leaf sees is that its route by the spine is withdrawn. A program on a
host of the first rack sends requests of the first priority to one of the second and waits for each answer; the longest
wait around the event is the outage as an application has it. Then the spine returns, which must lose nothing either.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from lab.control.plane import start_control
from lab.control.spines import class_states, pin
from lab.experiment.page import rewrite, table
from lab.experiment.store import Lines, replace_text
from lab.experiment.terminal import Teller, console_for_tables
from lab.fabric import Fabric, FabricError, Topology
from lab.fabric.commands import run_all
from lab.run.bigspine import timeline
from lab.run.bigspine.outage import DEADLINE_S, LEAF, asking, event
from lab.run.settings import SpineLoss

SETTLED_S = 0.5
"""With the class where it should be, before the next event."""
TOPOLOGY = Topology(leaves=2, spines=4, hosts_per_leaf=1)
WAYS = ("link", "spine", "route")
SERVE = ("--spine-down-s", "3600")
"""The orchestrator leaves the revision alone: what is measured is what the switch does by itself."""
BEGIN, END = "<!-- measured: a spine lost -->", "<!-- end: a spine lost -->"


def trial(fabric: Fabric, way: str, number: int) -> dict[str, object]:
    """The spine is lost and comes back under one connection."""
    with asking(fabric) as client:
        time.sleep(SETTLED_S)
        found: dict[str, object] = {"way": way, "trial": number}
        for name, is_there in (("lost_s", False), ("back_s", True)):
            begin = time.monotonic()
            run_all(event(fabric, way, is_there))
            wanted = "applied" if is_there else "fallen-back"  # also by a route: there is one other rack
            _await(lambda wanted=wanted: class_states(fabric, LEAF).get(0) == wanted, f"{LEAF} says {wanted}")  # type: ignore[misc]
            found[f"{name.removesuffix('_s')}_told_s"] = round(time.monotonic() - begin, 4)
            time.sleep(SETTLED_S)
            found[name] = round(client.longest(begin, time.monotonic()), 4)
    found["error"] = client.error
    found["requests"] = len(client.waits)
    return found


def _await(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + DEADLINE_S
    while not holds():
        if time.monotonic() > until:
            raise FabricError(f"waited {DEADLINE_S:g} s in vain until {what}")
        time.sleep(0.01)


def main(settings: SpineLoss) -> int:
    """Runs the trials that are missing and reports all."""
    say = Teller(console_for_tables())
    store = Lines(settings.folder / "trials.jsonl", lambda row: f"{row['way']}-{row['trial']}")
    wanted = [(way, number) for number in range(1, settings.trials + 1) for way in WAYS]
    missing = [one for one in wanted if store.find(f"{one[0]}-{one[1]}") is None]
    if missing and not settings.stored:
        control = partial(start_control, serve=SERVE)
        with Fabric(TOPOLOGY, settings.prefix, control=control, progress=say) as fabric:
            pin(fabric, 2)
            _await(lambda: set(class_states(fabric, LEAF).values()) == {"applied"}, f"{LEAF} pins its classes")
            for way, number in missing:
                measured = trial(fabric, way, number)
                say(json.dumps(measured))
                store.save(f"{way}-{number}", measured)
    rows = [row for way, number in wanted if (row := store.find(f"{way}-{number}")) is not None]
    text = page(rows)
    seen = settings.folder / "timeline.json"
    if not seen.is_file() and not settings.stored:
        replace_text(seen, json.dumps(timeline.measure(settings, say)))
    if seen.is_file():
        over_time = json.loads(seen.read_text(encoding="utf-8"))
        place = (settings.document or seen).with_name("bigspine-loss.svg")
        replace_text(place, timeline.figure(over_time))
        text += f"\n\n![over time]({place.name})\n\n{timeline.told(over_time)}"
    say.console.print(text, markup=False, highlight=False, soft_wrap=True)
    if settings.document is not None:
        rewrite(settings.document, "A spine dies", BEGIN, END, text)
    return 0


def page(rows: Sequence[Mapping[str, object]]) -> str:
    """Median and worst of the trials, in ms."""
    said = {
        "link": "the link goes down at the leaf",
        "spine": "all ports of the spine go down",
        "route": "the spine's link to the other rack goes down: its route is withdrawn",
    }
    head = [
        "what happens",
        "trials",
        "longest wait when lost: median, worst (ms)",
        "when it is back",
        "connections lost",
    ]
    lines = []
    for way, words in said.items():
        of = [row for row in rows if row["way"] == way]
        if of:
            both = [[1000 * float(str(row[name])) for row in of] for name in ("lost_s", "back_s")]
            told = [f"{median(each):.0f}, {max(each):.0f}" for each in both]
            lines.append([words, str(len(of)), *told, str(sum(bool(row["error"]) for row in of))])
    return table(head, lines)
