"""The machine's objects into ASIC_DB, COUNTERS_DB's name maps and STATE_DB, as syncd and orchagent write them."""

from __future__ import annotations

from collections.abc import Mapping

import redis

from lab.control.vasic.machine.machine import Machine
from lab.control.vasic.machine.sai import Port
from lab.control.vasic.rows import APPL_DB, ASIC_DB, COUNTERS_DB, STATE_DB, Fields, connect

ACL_STATUS = ("ACL_TABLE_TABLE|*", "ACL_RULE_TABLE|*")


class Tell:
    """Writes what changed since the last time; at first what an earlier ASIC left is removed."""

    def __init__(self, socket_path: str) -> None:
        self._asic, self._counters = connect(socket_path, ASIC_DB), connect(socket_path, COUNTERS_DB)
        self._state, self._appl = connect(socket_path, STATE_DB), connect(socket_path, APPL_DB)
        self._asic.flushdb()
        self._counters.flushdb()
        for pattern in ACL_STATUS:
            if left := self._state.keys(pattern):
                self._state.delete(*left)
        self._status: dict[str, str] = {}
        self._ports: dict[str, Port] = {}
        self._links: dict[str, bool] = {}
        self._rules: dict[str, str] = {}

    def write_links(self, is_up: Mapping[str, bool]) -> None:
        """PORT_TABLE of APPL_DB, as orchagent itself writes it when a link changes."""
        pipe = self._appl.pipeline(transaction=True)
        for name, up in is_up.items():
            if self._links.get(name) != up:
                told: Fields = {"admin_status": "up", "oper_status": "up" if up else "down"}
                pipe.hset(f"PORT_TABLE:{name}", mapping=told)
        self._links = dict(is_up)
        _execute(pipe)

    def write(self, machine: Machine) -> None:
        """One transaction a database, none where nothing changed."""
        self._write_ports({name: link.parts for name, link in machine.ports.links.items() if link.parts})
        self._write_objects(machine)
        self._write_rules({f"{table.name}:{rule.name}": rule.counter for table, rule in machine.acl.standing()})
        pipe = self._state.pipeline(transaction=True)
        for name in self._status.keys() - machine.state_db.keys():
            pipe.delete(name)
        for name, status in machine.state_db.items():
            if self._status.get(name) != status:
                pipe.hset(name, mapping={"status": status})
        self._status = dict(machine.state_db)
        _execute(pipe)

    def _write_rules(self, counters: dict[str, str]) -> None:
        """The map by which ACL rules' counters are found."""
        pipe = self._counters.pipeline(transaction=True)
        for name, oid in self._rules.items():
            if counters.get(name) != oid:
                pipe.hdel("ACL_COUNTER_RULE_MAP", name)
                pipe.delete(f"COUNTERS:{oid}")
        for name, oid in counters.items():
            if self._rules.get(name) != oid:
                pipe.hset("ACL_COUNTER_RULE_MAP", name, oid)
        self._rules = counters
        _execute(pipe)

    def _write_objects(self, machine: Machine) -> None:
        pipe = self._asic.pipeline(transaction=True)
        for kind, oid in sorted(machine.sai.changed):
            key = f"ASIC_STATE:SAI_OBJECT_TYPE_{kind}:{oid}"
            row = machine.sai.objects[kind].get(oid)
            if row is None:
                pipe.delete(key)
            else:
                fields: Fields = dict((row or {"NULL": "NULL"}).items())
                pipe.hset(key, mapping=fields)
        machine.sai.changed.clear()
        _execute(pipe)

    def _write_ports(self, ports: dict[str, Port]) -> None:
        """The maps by which `show queue counters` and others find the counters."""
        pipe = self._counters.pipeline(transaction=True)
        for name in self._ports.keys() - ports.keys():
            gone = self._ports[name]
            pipe.hdel("COUNTERS_PORT_NAME_MAP", name)
            for queue, oid in enumerate(gone.queues):
                pipe.hdel("COUNTERS_QUEUE_NAME_MAP", f"{name}:{queue}")
                for what in ("TYPE", "INDEX", "PORT"):
                    pipe.hdel(f"COUNTERS_QUEUE_{what}_MAP", oid)
        for name in ports.keys() - self._ports.keys():
            port = ports[name]
            pipe.hset("COUNTERS_PORT_NAME_MAP", name, port.oid)
            for queue, oid in enumerate(port.queues):
                pipe.hset("COUNTERS_QUEUE_NAME_MAP", f"{name}:{queue}", oid)
                pipe.hset("COUNTERS_QUEUE_TYPE_MAP", oid, "SAI_QUEUE_TYPE_UNICAST")
                pipe.hset("COUNTERS_QUEUE_INDEX_MAP", oid, str(queue))
                pipe.hset("COUNTERS_QUEUE_PORT_MAP", oid, port.oid)
        self._ports = ports
        _execute(pipe)


def _execute(pipe: redis.client.Pipeline) -> None:
    if len(pipe):
        pipe.execute()
