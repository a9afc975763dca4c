"""How a spine is lost, and a connection that asks all the time while it is."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from lab.fabric import Fabric
from lab.fabric.commands import Ip

FIRST_DSCP, PORT, REQUEST_BYTES = 47, 7777, 64
PAUSE_S, DEADLINE_S = 0.002, 60.0
"""Between requests; for one answer, or for a leaf to notice."""
LEAF, SPINE = "l1", "s1"


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
