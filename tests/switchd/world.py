"""A switch without redis, clock or kernel: CONFIG_DB and STATE_DB as dicts, orchagent's stand-in below them."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.seen import Seen
from lab.control.vasic.machine.waiting import Task
from switchd.db import APPL, ASIC, COUNTERS, STATE, Database, Notices, RowsChanged, Watch
from switchd.rows import Change, Delete, Drop, Merge, Put, Row, Rows, applied


class Killed(Exception):
    """The daemon ends here."""


class World(Database):
    """`writes_left`: transactions of the daemon until it is killed. Tables of a transaction are read in any order."""

    def __init__(self, rows: Rows, chance: random.Random) -> None:
        self.rows, self.state, self.chance = applied(rows, ()), Rows(), chance
        self.writes_left = 10**9
        self.calls_by_us: list[str] = []
        self.late: set[str] = set()
        self.clients: dict[int, str] = {}
        self.appl_rows, self.waiting, self.up = Rows(), list[Put | Delete](), set[str]()
        self.restart()

    # orchagent

    def restart(self) -> None:
        """orchagent begins anew, with all rows that stand."""
        self.machine = Machine()
        for table in self._shuffled(self.rows):
            tasks = [Task("SET", key, dict(row)) for key, row in self.rows[table].items()]
            self.machine.event(table, tasks)
        self.machine.start([port for port in self.rows["PORT"] if port not in self.late])
        for port in self.up:
            self.machine.port_event(port, True)
        for table in self._shuffled(self.appl_rows):
            tasks = [Task("SET", key, dict(row)) for key, row in self.appl_rows[table].items()]
            self.machine.event(table, tasks)

    def change(self, *changes: Change) -> None:
        """One transaction of somebody else."""
        before, self.rows = self.rows, applied(self.rows, changes)
        told: dict[str, list[Task]] = {}
        for one in changes:
            was, row = one.key in before.get(one.table, {}), self.rows.get(one.table, {}).get(one.key)
            if isinstance(one, Delete) or (isinstance(one, Drop) and was and row is None):
                told.setdefault(one.table, []).append(Task("DEL", one.key))
            if row is not None:
                told.setdefault(one.table, []).append(Task("SET", one.key, dict(row)))
        for table in self._shuffled(told):
            self.machine.event(table, told[table])

    def port_comes(self, name: str) -> None:
        self.late.discard(name)
        self.machine.port_comes(name)

    def in_asic(self, port: str) -> dict[str, Any]:
        link = self.machine.ports.links.get(port)
        return Seen(self.machine).port(link.parts) if link and link.parts else {}

    def _shuffled(self, tables: Iterable[str]) -> list[str]:
        found = sorted(tables)
        self.chance.shuffle(found)
        return found

    # what the daemon sees

    def command(self, number: int, words: Sequence[str]) -> str:
        raise NotImplementedError

    def client_list(self) -> str:
        return "".join(f"{line}\n" for line in self.clients.values())

    def watch(self, tables: Iterable[str]) -> Watch:
        raise NotImplementedError

    def notices(self, patterns: Mapping[int, str]) -> Notices:
        return WorldNotices(self)

    def close(self) -> None:
        pass

    def check_whole(self) -> None:
        pass

    def get_whole_tables(self, tables: Iterable[str]) -> Rows:
        return {table: {k: dict(r) for k, r in self.rows.get(table, {}).items()} for table in tables}

    def write(
        self, changes: Sequence[Change], owner: str = "", expected: Mapping[tuple[str, str], Row] | None = None
    ) -> None:
        if not changes:
            return
        for (table, key), row in (expected or {}).items():
            if self.rows.get(table, {}).get(key, {}) != row:
                raise RowsChanged(f"{table}|{key}")
        if not self.writes_left:
            raise Killed
        self.writes_left -= 1
        count = len(self.machine.sai.calls)
        self.change(*changes)
        self.calls_by_us += self.machine.sai.calls[count:]

    def get_state(self, table: str) -> dict[str, Row]:
        return {key: dict(row) for key, row in self.state.get(table, {}).items()}

    def write_state(self, changes: Sequence[Change], owner: str = "") -> None:
        self.state = applied(self.state, changes)

    def hold(self, owner: str, milliseconds: int, instead_of: str = "") -> str:
        return owner

    def release(self, owner: str) -> None:
        pass

    def hashes(self, number: int, keys: Sequence[str]) -> list[Row]:
        return [self._hash(number, key) for key in keys]

    # APPL_DB: what somebody hands to orchagent is taken at once, what the daemon hands over when `take` is called

    def appl(self, table: str, key: str, row: Row | None) -> None:
        """A row of somebody else's, or its end."""
        change = Delete(table, key) if row is None else Merge(table, key, row)
        self.appl_rows = applied(self.appl_rows, (change,))
        self.machine.event(table, [Task("DEL", key) if row is None else Task("SET", key, dict(row))])

    def link(self, port: str, is_up: bool) -> None:
        """A port's link, as orchagent tells it in PORT_TABLE."""
        (self.up.add if is_up else self.up.discard)(port)
        told = {"oper_status": "up" if is_up else "down"}
        self.appl_rows = applied(self.appl_rows, (Merge("PORT_TABLE", port, told),))
        self.machine.port_event(port, is_up)

    def take(self) -> None:
        """orchagent takes what was produced."""
        changes, self.waiting = self.waiting, []
        self.appl_rows = applied(self.appl_rows, changes)
        for one in changes:
            row = dict(one.row) if isinstance(one, Put) else {}
            self.machine.event(one.table, [Task("SET", one.key, row) if row else Task("DEL", one.key)])

    def produce_all(self, changes: Sequence[Put | Delete], owner: str) -> None:
        if changes and not self.writes_left:
            raise Killed
        self.writes_left -= bool(changes)
        self.waiting += changes

    def produced(self, tables: Sequence[str]) -> list[Change]:
        return list(self.waiting)

    def scan(self, number: int, pattern: str) -> Iterator[str]:
        if number == APPL:
            return iter([f"{table}:{key}" for table, entries in self.appl_rows.items() for key in entries])
        kind = pattern.split(":")[1].removeprefix("SAI_OBJECT_TYPE_")
        return iter([f"ASIC_STATE:SAI_OBJECT_TYPE_{kind}:{oid}" for oid in self.machine.sai.objects[kind]])

    def _hash(self, number: int, key: str) -> Row:
        ports = {name: link.parts for name, link in self.machine.ports.links.items() if link.parts}
        if number == APPL:
            table, _, rest = key.partition(":")
            return dict(self.appl_rows.get(table, {}).get(rest, {}))
        if number == STATE and key in self.machine.state_db:
            return {"status": self.machine.state_db[key]}
        if number == COUNTERS and key == "COUNTERS_PORT_NAME_MAP":
            return {name: port.oid for name, port in ports.items()}
        if number == COUNTERS and key == "ACL_COUNTER_RULE_MAP":
            return {f"{table.name}:{rule.name}": rule.counter for table, rule in self.machine.acl.standing()}
        if number == COUNTERS and key == "COUNTERS_LAG_NAME_MAP":
            return {}
        if number == COUNTERS:
            return {f"{name}:{q}": oid for name, port in ports.items() for q, oid in enumerate(port.queues)}
        if number == ASIC:
            _, kind, oid = key.split(":", 2)
            found = self.machine.sai.objects[kind.removeprefix("SAI_OBJECT_TYPE_")].get(oid)
            return {} if found is None else dict(found) or {"NULL": "NULL"}
        assert number == STATE
        table, _, rest = key.partition("|")
        return self.state.get(table, {}).get(rest, {})


class WorldNotices(Notices):
    """What is another row than at the last call, of APPL_DB and of orchagent's words in STATE_DB."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known = self._now()

    def take(self) -> set[tuple[int, str]]:
        before, self._known = self._known, self._now()
        return {key for key, _ in before ^ self._known}

    def close(self) -> None:
        pass

    def _now(self) -> set[tuple[tuple[int, str], str]]:
        rows = {
            ((APPL, f"{table}:{key}"), repr(sorted(row.items())))
            for table, entries in self._world.appl_rows.items()
            for key, row in entries.items()
        }
        return rows | {((STATE, key), text) for key, text in self._world.machine.state_db.items()}


def replaced(table: str, key: str, row: Row) -> tuple[Change, ...]:
    """What people do: DEL and HSET in one transaction."""
    return Delete(table, key), Merge(table, key, row)
