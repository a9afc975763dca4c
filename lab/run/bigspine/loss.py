"""`qclimb lab run spineloss`: how long a pinned class's packets are lost when its spine is, over real TCP.

Three ways to lose a spine: its link goes down at the leaf; all its ports go down, so that leaves see no carrier; its
link to the other rack goes down, so that all the leaf sees is that its route by the spine is withdrawn. A program on a
host of the first rack sends requests of the first priority to one of the second and waits for each answer; the longest
wait around the event is the outage as an application has it. Then the spine returns, which must lose nothing either.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from lab.control.plane import start_control
from lab.control.spines import class_states, pin
from lab.experiment.page import parted, table
from lab.experiment.store import Lines
from lab.experiment.terminal import Teller, console_for_tables
from lab.fabric import Fabric, FabricError, Topology
from lab.fabric.commands import Ip, run_all
from lab.run.settings import SpineLoss

FIRST_DSCP, PORT, REQUEST_BYTES = 47, 7777, 64
PAUSE_S, SETTLED_S, DEADLINE_S = 0.002, 0.5, 60.0
"""Between requests; with the class where it should be, before the next event; for a leaf to notice."""
LEAF, SPINE = "l1", "s1"
TOPOLOGY = Topology(leaves=2, spines=4, hosts_per_leaf=1)
WAYS = ("link", "spine", "route")
SERVE = ("--spine-down-s", "3600")
"""The orchestrator leaves the revision alone: what is measured is what the switch does by itself."""
BEGIN, END = "<!-- measured: a spine lost -->", "<!-- end: a spine lost -->"


@dataclass
class Client:
    """A connection that asks all the time: the waits as (when asked, seconds)."""

    waits: list[tuple[float, float]] = field(default_factory=list)
    error: str = ""

    def longest(self, since: float, until: float) -> float:
        """Of the requests between two moments."""
        return max((wait for at, wait in self.waits if at + wait >= since and at <= until), default=0.0)


@contextmanager
def asking(fabric: Fabric) -> Iterator[Client]:
    """A connection between the racks that asks while the block runs."""
    names, stop, client = list(fabric.hosts), threading.Event(), Client()
    address = (fabric.hosts[names[-1]], PORT)
    with fabric.entered(names[-1]):
        listener = _marked()
        listener.bind(address)
        listener.listen()

    def answer() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            while data := connection.recv(REQUEST_BYTES):
                connection.sendall(data)

    with fabric.entered(names[0]):
        asker = _marked()
    server = threading.Thread(target=answer, daemon=True)
    server.start()
    asker.settimeout(DEADLINE_S)
    asker.connect(address)

    def ask() -> None:
        try:
            while not stop.is_set():
                begin = time.monotonic()
                asker.sendall(bytes(REQUEST_BYTES))
                left = REQUEST_BYTES
                while left:
                    left -= len(asker.recv(left)) or _closed()
                client.waits.append((begin, time.monotonic() - begin))
                stop.wait(PAUSE_S)
        except OSError as lost:
            client.error = str(lost)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield client
    finally:
        stop.set()
        thread.join(DEADLINE_S)
        asker.close()
        listener.close()


def _marked() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, FIRST_DSCP << 2)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


def _closed() -> int:
    raise OSError("the connection was closed")


def event(fabric: Fabric, way: str, is_there: bool) -> list[Ip]:
    """The commands that lose the spine, or bring it back."""
    verb = "up" if is_there else "down"
    uplinks = [port for port in fabric.topology.ports_of(LEAF) if port.peer_is_switch]
    if way == "link":
        return [
            Ip(fabric.netns(LEAF), f"link set dev {port.name} {verb}") for port in uplinks if port.peer_node == SPINE
        ]
    if way == "spine":
        return [Ip(fabric.netns(SPINE), f"link set dev {port.name} {verb}") for port in fabric.topology.ports_of(SPINE)]
    beyond = [port for port in fabric.topology.ports_of(SPINE) if port.peer_node != LEAF]
    return [Ip(fabric.netns(SPINE), f"link set dev {port.name} {verb}") for port in beyond]


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
    say.console.print(text, markup=False, highlight=False, soft_wrap=True)
    if settings.document is not None:
        old = settings.document.read_text(encoding="utf-8") if settings.document.is_file() else "# A spine dies\n\n"
        before, _, after = parted(old, BEGIN, END)
        settings.document.write_text(f"{before}{BEGIN}\n{text}\n{END}{after or chr(10)}", encoding="utf-8")
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
