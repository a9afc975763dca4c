"""A machine that follows a switch's redis: rows in by `feed`, objects out by `tell`.

Without queues below it, it is orchagent and syncd for the tests of whoever writes rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from qclimb.orchagent import Malformed, check

from lab.control.vasic.feed import PORT, Event, Feed
from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.sai import Port
from lab.control.vasic.rows import Rows
from lab.control.vasic.tell import Tell


class Follower:
    """One switch. `start` once; then `wait` and `take` for what changes, `tell` after each."""

    def __init__(self, socket_path: str) -> None:
        self.machine = Machine()
        self._feed, self._tell = Feed(socket_path), Tell(socket_path)
        self.links_up: dict[str, bool] = {}

    @property
    def rows(self) -> Rows:
        """CONFIG_DB as far as it was followed."""
        return self._feed.rows

    @property
    def ports(self) -> dict[str, Port]:
        """Ports by name."""
        return {name: link.parts for name, link in self.machine.ports.links.items() if link.parts}

    def start(self) -> None:
        """Takes all rows that are there: those of ports at last, as the others wait for the first of them."""
        events = self._feed.first()
        for event in events:
            self.machine.event(event.table, event.tasks)
        ports = [task.key for event in events if event.table == PORT for task in event.tasks]
        if ports:
            self.machine.start(ports)
        self.tell()

    def problems(self) -> list[str]:
        """A sentence for each row that orchagent does not take."""
        found = []
        for table, entries in self.rows.items():
            for key, row in entries.items():
                try:
                    check(table, key, row or {"NULL": "NULL"})
                except Malformed as wrong:
                    found.append(f"{table}|{key}: {wrong}")
        if self.machine.has_ended:
            found.append("a row has ended orchagent: nothing is followed any more")
        return found

    def wait(self, timeout_s: float) -> bool:
        """Whether rows changed within the time."""
        return self._feed.wait(timeout_s)

    def take(self) -> None:
        """Takes what changed."""
        for event in self._feed.read():
            if event.table == PORT:
                self._ports(event)
            else:
                self.machine.event(event.table, event.tasks)

    def _ports(self, event: Event) -> None:
        for task in event.tasks:
            if task.op == "SET":
                self.machine.port_comes(task.key)
            else:
                self.machine.port_goes(task.key)

    def links(self, is_up: Mapping[str, bool]) -> bool:
        """Takes the links of ports; whether one changed."""
        changed = {
            name: up
            for name, up in is_up.items()
            if name in self.machine.ports.links and self.machine.ports.links[name].is_down == up
        }
        for name, up in changed.items():
            self.machine.port_event(name, up)
        self.links_up = {**self.links_up, **is_up}
        self._tell.write_links(is_up)
        return bool(changed)

    def tell(self) -> None:
        """Writes what changed in the ASIC."""
        self._tell.write(self.machine)
