"""orchagent as a pure machine: rows of SONiC's tables in as events, the ASIC's objects out.

After each event every family of tables has one pass over the rows that wait, in orchagent's order
(`OrchDaemon::start`). It knows no redis, no clock and no kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lab.control.vasic.machine.acl import AclOrch
from lab.control.vasic.machine.buffers import COPIED, BufferOrch, copied
from lab.control.vasic.machine.groups import GroupsOrch
from lab.control.vasic.machine.next_hops import NextHops
from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.qos import QosOrch
from lab.control.vasic.machine.routes import RoutesOrch
from lab.control.vasic.machine.sai import Sai
from lab.control.vasic.machine.waiting import Ended, Orch, Task

CONFIG_TABLES = (*QosOrch.tables, *COPIED, *sorted(AclOrch.config_tables))
"""Tables of CONFIG_DB that count."""
APPL_TABLES = (
    *(*PortsOrch.tables, *NextHops.tables, *GroupsOrch.tables, *RoutesOrch.tables),
    *(table for table in AclOrch.tables if table not in AclOrch.config_tables),
)
"""Tables of APPL_DB that count; the buffers' are written by this machine's own buffermgr."""


class Machine:
    """One switch.

    has_ended  a row has ended orchagent: nothing is taken any more
    """

    def __init__(self, ports: Iterable[str] = ()) -> None:
        self.sai = Sai()
        self.ports = PortsOrch(self.sai)
        self.next_hops = NextHops(self.sai, self.ports)
        groups = GroupsOrch(self.sai, self.ports, self.next_hops)
        routes = RoutesOrch(self.sai, self.ports, self.next_hops, groups)
        self.acl = AclOrch(self.sai, self.ports, self.next_hops, routes.shared)
        buffers, qos = BufferOrch(self.sai, self.ports), QosOrch(self.sai, self.ports)
        self._orchs: list[Orch] = [self.ports, buffers, self.next_hops, groups, routes, qos, self.acl]
        self._of_table = {table: orch for orch in self._orchs for table in orch.tables}
        self.has_ended = False
        self.state_db: Mapping[str, str] = self.acl.state_db
        if names := list(ports):
            self.start(names)

    def start(self, ports: Iterable[str]) -> None:
        """The first ports are there: rows that waited for them are looked at."""
        for name in ports:
            self.ports.add_port(name)
        self.ports.is_ready = True
        self._retry()

    def event(self, table: str, tasks: Iterable[Task]) -> None:
        """Rows of one table changed, of CONFIG_DB or APPL_DB; rows of another table count for nothing."""
        if table in COPIED:
            table, tasks = f"{table}_TABLE", copied(tasks)
        if self.has_ended or table not in self._of_table:
            return
        try:
            self._of_table[table].event(table, tasks)
            self._retry()
        except Ended:
            self.has_ended = True

    def port_event(self, name: str, is_up: bool) -> None:
        """The link of a port."""
        self.ports.set_link(name, is_up)
        self._retry()

    def port_comes(self, name: str) -> None:
        """A port is new."""
        if name not in self.ports.links:
            self.ports.add_port(name)
        self.ports.is_ready = True
        self._retry()

    def port_goes(self, name: str) -> None:
        """A port is gone."""
        if name in self.ports.links:
            self.ports.remove_port(name)
            self._retry()

    def object_of(self, table: str, key: str) -> tuple[str, bool] | None:
        """Id of the object that a row of the QoS or buffer tables has, and whether it waits for its removal."""
        orch = self._of_table.get(f"{table}_TABLE" if table in COPIED else table)
        if not isinstance(orch, QosOrch | BufferOrch):
            return None
        row = orch.references.find(f"{table}_TABLE" if table in COPIED else table, key)
        return (row.oid, row.is_parked) if row and row.oid else None

    def pending(self) -> Iterator[str]:
        """Names of all rows that wait."""
        for orch in self._orchs:
            yield from orch.pending()

    def _retry(self) -> None:
        for orch in self._orchs:
            orch.retry()
