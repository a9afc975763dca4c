"""ACL tables and their rules (`aclorch`): what is refused says so in STATE_DB and is not tried again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from qclimb.orchagent import Refused, tokens

from lab.control.vasic.machine.acl_fields import OWN_KINDS, PACKET_RULE, Kind, kind_of
from lab.control.vasic.machine.acl_rules import Rule, Rules
from lab.control.vasic.machine.next_hops import NextHops
from lab.control.vasic.machine.ports import PortsOrch
from lab.control.vasic.machine.routes import SharedGroups
from lab.control.vasic.machine.sai import NULL, Sai
from lab.control.vasic.machine.waiting import Orch, Retry, Task

CONTROL_PLANE = "CTRLPLANE"
"""Type of a table that orchagent leaves to another daemon."""


@dataclass
class Table:
    """A table that stands; `ports`: those that it is bound to, by name, with the member that binds it."""

    name: str
    kind: Kind
    stage: str
    ports: dict[str, str] = field(default_factory=dict)
    waiting_ports: set[str] = field(default_factory=set)
    rules: dict[str, Rule] = field(default_factory=dict)
    oid: str = ""


class AclOrch(Orch):
    """ACL tables of CONFIG_DB and APPL_DB.

    state_db  their rows of STATE_DB: name -> status
    """

    tables = (
        *("ACL_TABLE_TYPE", "ACL_TABLE_TYPE_TABLE", "ACL_TABLE", "ACL_TABLE_TABLE"),
        *("ACL_RULE", "ACL_RULE_TABLE"),
    )
    config_tables = frozenset({"ACL_TABLE_TYPE", "ACL_TABLE", "ACL_RULE"})

    def __init__(self, sai: Sai, ports: PortsOrch, next_hops: NextHops, shared: SharedGroups) -> None:
        super().__init__(sai)
        self._ports, self._objects = ports, Rules(sai, ports, next_hops, shared)
        self._kinds = dict(OWN_KINDS)
        self._control_plane: set[str] = set()
        self._tables: dict[str, Table] = {}
        self._bound: dict[tuple[str, str], tuple[str, set[str]]] = {}
        """port and stage -> its group and the group's members"""
        self.state_db: dict[str, str] = {}
        ports.on_new.append(self._new_port)

    def standing(self) -> Iterator[tuple[Table, Rule]]:
        """Every rule that stands, with its table."""
        return ((table, rule) for table in self._tables.values() for rule in table.rules.values())

    def ready(self) -> bool:
        """Not before the first ports."""
        return self._ports.is_ready

    def drain(self, table: str) -> None:
        """Rules go by priority: deletions first from the least, then the rest from the largest."""
        if not table.startswith("ACL_RULE"):
            super().drain(table)
            return
        waiting = self.waiting[table]
        if not self.ready():
            return
        tasks = [(task, self._priority(table, task)) for task in waiting.in_order()]
        for task, _ in sorted((pair for pair in tasks if pair[0].op == "DEL"), key=lambda pair: pair[1] or 0):
            name, rule = self._split(table, task.key)
            if name:
                self._remove_rule(name, rule)
            waiting.remove(task)
        sets = [(task, order) for task, order in tasks if task.op == "SET"]
        for task, _ in [pair for pair in sets if pair[1] is None]:
            waiting.remove(task)
        for task, _ in sorted((p for p in sets if p[1] is not None), key=lambda pair: -(pair[1] or 0)):
            name, rule = self._split(table, task.key)
            if name in self._tables:
                waiting.remove(task)
                if not self._set_rule(name, rule, task.row):
                    return
            elif not name or name in self._control_plane:
                waiting.remove(task)

    def _split(self, table: str, key: str) -> tuple[str, str]:
        """Table and rule of a rule's key; without a separator both are the whole key."""
        name, separator, rule = key.partition("|" if table in self.config_tables else ":")
        return name, rule if separator else name

    def _priority(self, table: str, task: Task) -> int | None:
        """For the order; None: the row is dropped, and STATE_DB says nothing."""
        name, rule = self._split(table, task.key)
        if task.op == "DEL":
            standing = self._tables[name].rules.get(rule) if name in self._tables else None
            return standing.priority if standing else 0
        text = next((text for field, text in task.row.items() if field.upper() == "PRIORITY"), "0")
        found = int(text) if re.fullmatch(r"\s*[+]?[0-9]+", text, re.ASCII) else None
        return None if found is None or found >= 2**32 else found

    def take(self, table: str, task: Task) -> None:
        """A type or a table."""
        if table.startswith("ACL_TABLE_TYPE"):
            if task.op == "DEL":
                self._kinds.pop(task.key, None)
            else:
                kind = kind_of(task.key, task.row)
                self._kinds.setdefault(task.key, kind)
            return
        name = self._split(table, task.key)[0]
        if task.op == "DEL":
            self._remove_table(name)
            self.state_db.pop(f"ACL_TABLE_TABLE|{name}", None)
        else:
            self._set_table(name, task.row)

    def _set_table(self, name: str, row: Mapping[str, str]) -> None:
        kind_name, stage, is_wrong = "", "ingress", False
        ports: list[str] = []
        for label, text in row.items():
            label = label.upper()
            if label == "TYPE" and text:
                kind_name = text
            elif label == "PORTS":
                ports = tokens(text, ",")
                if any(each in self._ports.links and self._ports.links[each].lag for each in ports):
                    is_wrong = True
                    break
            elif label == "STAGE" and text.lower() in ("ingress", "egress"):
                stage = text.lower()
            elif label not in ("POLICY_DESC", "SERVICES"):
                is_wrong = True
                break
        kind = self._kinds.get(kind_name)
        if kind is None and kind_name != CONTROL_PLANE:
            raise Retry
        if not is_wrong and kind is None:
            self._control_plane.add(name)
        elif not is_wrong and kind is not None:
            self._place(Table(name, kind, stage), ports)
        self.state_db[f"ACL_TABLE_TABLE|{name}"] = "Inactive" if is_wrong else "Active"

    def _place(self, table: Table, ports: list[str]) -> None:
        """A table that stands with the same type and stage gets other ports; any other is made anew."""
        standing = self._tables.get(table.name)
        if standing is None or (standing.kind.name, standing.stage) != (table.kind.name, table.stage):
            self._remove_table(table.name)
            table.oid = self.sai.create("ACL_TABLE", _table_attributes(table))
            self._tables[table.name] = standing = table
        for name in sorted(set(standing.ports) - set(ports)):
            self._unbind(standing, name)
        standing.waiting_ports &= set(ports)
        for name in sorted(set(ports) - set(standing.ports)):
            self._bind(standing, name)

    def _bind(self, table: Table, name: str) -> None:
        link = self._ports.links.get(name)
        if link is None:
            table.waiting_ports.add(name)
            return
        at = (name, table.stage)
        if at not in self._bound:
            stage = f"SAI_ACL_STAGE_{table.stage.upper()}"
            group = self.sai.create(
                "ACL_TABLE_GROUP",
                {
                    "SAI_ACL_TABLE_GROUP_ATTR_ACL_STAGE": stage,
                    "SAI_ACL_TABLE_GROUP_ATTR_ACL_BIND_POINT_TYPE_LIST": f"1:SAI_ACL_BIND_POINT_TYPE_{link.kind}",
                    "SAI_ACL_TABLE_GROUP_ATTR_TYPE": "SAI_ACL_TABLE_GROUP_TYPE_PARALLEL",
                },
            )
            self._bound[at] = group, set()
            self.sai.set(link.kind, link.oid, f"SAI_{link.kind}_ATTR_{table.stage.upper()}_ACL", group)
        group, members = self._bound[at]
        member = self.sai.create(
            "ACL_TABLE_GROUP_MEMBER",
            {
                "SAI_ACL_TABLE_GROUP_MEMBER_ATTR_ACL_TABLE_GROUP_ID": group,
                "SAI_ACL_TABLE_GROUP_MEMBER_ATTR_ACL_TABLE_ID": table.oid,
                "SAI_ACL_TABLE_GROUP_MEMBER_ATTR_PRIORITY": "100",
            },
        )
        members.add(member)
        table.ports[name] = member

    def _unbind(self, table: Table, name: str) -> None:
        member, (group, members) = table.ports.pop(name), self._bound[name, table.stage]
        self.sai.remove("ACL_TABLE_GROUP_MEMBER", member)
        members.discard(member)
        if not members:
            link = self._ports.links[name]
            self.sai.set(link.kind, link.oid, f"SAI_{link.kind}_ATTR_{table.stage.upper()}_ACL", NULL)
            self.sai.remove("ACL_TABLE_GROUP", group)
            del self._bound[name, table.stage]

    def _new_port(self, name: str) -> None:
        for table in self._tables.values():
            if name in table.waiting_ports:
                table.waiting_ports.discard(name)
                self._bind(table, name)

    def _remove_table(self, name: str) -> None:
        table = self._tables.pop(name, None)
        if table is None:
            return
        for rule in sorted(table.rules):
            self._objects.remove(table.rules[rule])
        for port in sorted(table.ports):
            self._unbind(table, port)
        self.sai.remove("ACL_TABLE", table.oid)

    def _remove_rule(self, name: str, rule: str) -> None:
        if name in self._tables and rule in self._tables[name].rules:
            self._objects.remove(self._tables[name].rules.pop(rule))
        self.state_db.pop(f"ACL_RULE_TABLE|{name}|{rule}", None)

    def _set_rule(self, name: str, rule_name: str, row: Mapping[str, str]) -> bool:
        """Whether the pass goes on: a rule without an action that orchagent knows ends it."""
        if not any(label.upper() in PACKET_RULE for label in row):
            return False
        table = self._tables[name]
        try:
            rule = self._objects.read(rule_name, table.kind, row)
        except Refused:
            self.state_db[f"ACL_RULE_TABLE|{name}|{rule_name}"] = "Inactive"
            return True
        if standing := table.rules.pop(rule_name, None):
            self._objects.remove(standing)
        self._objects.create(table.oid, rule)
        table.rules[rule_name] = rule
        self.state_db[f"ACL_RULE_TABLE|{name}|{rule_name}"] = "Active"
        return True


def _table_attributes(table: Table) -> dict[str, str]:
    kind, of = table.kind, "SAI_ACL_TABLE_ATTR_"
    found = {f"{of}ACL_BIND_POINT_TYPE_LIST": f"{len(kind.bind_points)}:{','.join(kind.bind_points)}"}
    found |= {f"{of}FIELD_{name}": "true" for name in sorted(kind.matches)}
    if kind.actions:
        names = sorted(f"SAI_ACL_ACTION_TYPE_{name}" for name in kind.actions)
        found[f"{of}ACL_ACTION_TYPE_LIST"] = f"{len(names)}:{','.join(names)}"
    return {**found, f"{of}ACL_STAGE": f"SAI_ACL_STAGE_{table.stage.upper()}"}
