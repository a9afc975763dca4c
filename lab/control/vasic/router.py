"""Where the ASIC sends packets, into this namespace's kernel: ACL rules by nftables, routes and redirects by tables.

A packet that a rule redirects gets a mark, and the mark a routing table of its own. What is only passing through is
routed by a table that the ASIC's routes alone fill: the kernel's main table is what the switch's own programs route by,
and nothing of it moves a packet of the fabric until rows have told the ASIC.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lab.control.vasic.forwarding import Forwarding, Member, Redirect
from lab.fabric.commands import Ip, run_all
from lab.fabric.topology import FabricError

TABLE, FIRST_MARKED = 1000, 2000
REDIRECTS_FIRST, PASSING_THROUGH = 50, 100
"""preferences of `ip rule`, after the switch's own addresses (0), before its own routes (32766)"""
OURS = "protocol 71"
"""who made a rule, by a number that no routing daemon has (rt_protos): others may have ours' preferences"""
ALL_BITS = 0x3F


@dataclass(frozen=True)
class RouterState:
    """What the kernel was told.

    routes    prefix -> members that are up
    marks     members that are up -> mark
    rules     the one that counts first stands first
    """

    routes: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    marks: Mapping[tuple[Member, ...], int] = field(default_factory=dict)
    rules: tuple[Redirect, ...] = ()


def live(members: Iterable[Member], up: Iterable[str]) -> tuple[Member, ...]:
    """Members whose link is up: what is sent to another one is lost."""
    return tuple(one for one in members if one.interface in up)


def wanted(found: Forwarding, up: frozenset[str], before: RouterState) -> RouterState:
    """What the kernel should be told; marks that are in use stay."""
    routes = {to: live(members, up) for to, members in found.routes.items() if ":" not in to}
    rules = tuple(
        one if one.members is None else Redirect(**{**vars(one), "members": live(one.members, up)})
        for one in found.rules
        if one.version != 6 and ":" not in (one.to or "") and one.ports
    )
    sets = dict.fromkeys(one.members for one in rules if one.members is not None)
    marks = {members: before.marks[members] for members in sets if members in before.marks}
    free = (mark for mark in range(1, 1000) if mark not in before.marks.values())
    for members in sets:
        if members not in marks:
            marks[members] = next(free)
    return RouterState(routes, marks, rules)


def ip_lines(now: RouterState, before: RouterState) -> Iterator[str]:
    """What `ip -batch` does about routes: first what is new, last what is gone."""
    for members, mark in now.marks.items():
        if before.marks.get(members) != mark:
            yield f"route replace {_route('default', FIRST_MARKED + mark, members)}"
            if mark not in before.marks.values():
                yield f"rule add pref {REDIRECTS_FIRST} fwmark {mark} lookup {FIRST_MARKED + mark} {OURS}"
    for to, members in now.routes.items():
        if before.routes.get(to) != members:
            yield f"route replace {_route(to, TABLE, members)}"
    for to in before.routes.keys() - now.routes.keys():
        yield f"route flush exact {to} table {TABLE}"  # no error where a link took it away already


def gone_lines(now: RouterState, before: RouterState) -> Iterator[str]:
    """What goes once no rule marks by it any more."""
    for mark in set(before.marks.values()) - set(now.marks.values()):
        yield f"rule del pref {REDIRECTS_FIRST} fwmark {mark} {OURS}"
        yield f"route flush table {FIRST_MARKED + mark}"


def _route(to: str, table: int, members: tuple[Member, ...]) -> str:
    if not members:
        return f"blackhole {to} table {table}"
    if len(members) == 1:
        return f"{to} table {table} {_hop(members[0])}"
    hops = " ".join(f"nexthop {_hop(one)} weight {max(1, min(one.weight, 256))}" for one in members)
    return f"{to} table {table} {hops}"


def _hop(one: Member) -> str:
    return f"via {one.address} dev {one.interface} onlink" if one.address else f"dev {one.interface}"


def nft_lines(now: RouterState, before: RouterState) -> Iterator[str]:
    """One transaction of nft: the chain is made anew, counters of rules that stay keep counting."""
    yield "add table ip vasic"
    for rule in now.rules:
        yield f"add counter ip vasic {_counter(rule)}"
    yield "add chain ip vasic ingress { type filter hook prerouting priority -150 ; }"
    yield "flush chain ip vasic ingress"
    for rule in now.rules:
        yield f"add rule ip vasic ingress {_matches(rule)} counter name {_counter(rule)} {_verdict(rule, now)}"
    kept = {_counter(rule) for rule in now.rules}
    for name in dict.fromkeys(_counter(rule) for rule in before.rules):
        if name not in kept:
            yield f"delete counter ip vasic {name}"


def _counter(rule: Redirect) -> str:
    return f"c{rule.counter.removeprefix('oid:0x')}"


def _matches(rule: Redirect) -> str:
    parts = ["iifname { " + ", ".join(f'"{port}"' for port in rule.ports) + " }"]
    if rule.dscp is not None:
        value, mask = rule.dscp
        parts.append(f"ip dscp {value}" if mask == ALL_BITS else f"ip dscp & {mask:#x} == {value}")
    if rule.to is not None:
        parts.append(f"ip daddr {rule.to}")
    return " ".join(parts)


def _verdict(rule: Redirect, now: RouterState) -> str:
    if rule.members is None:
        return "accept"
    return f"meta mark set {now.marks[rule.members]} accept"


class Router:
    """The kernel's forwarding in this namespace; changes only what differs."""

    def __init__(self) -> None:
        self._now = RouterState()
        self._has_rules = self._passes = False
        for pref in (REDIRECTS_FIRST, PASSING_THROUGH):  # what an earlier ASIC left
            while not subprocess.run(
                ["ip", "rule", "del", "pref", str(pref), *OURS.split()], capture_output=True, check=False
            ).returncode:
                pass
        subprocess.run(["nft", "delete", "table", "ip", "vasic"], capture_output=True, check=False)

    def apply(self, found: Forwarding, up: frozenset[str]) -> bool:
        """Makes the kernel send packets so; whether anything differed.

        Nothing is taken from the kernel's own routes before the ASIC has one.

        Raises:
            FabricError: the kernel refused.
        """
        before, now = self._now, wanted(found, up, self._now)
        if now == before:
            return False
        run_all([Ip("", line) for line in ip_lines(now, before)])
        if now.rules != before.rules or now.marks != before.marks:
            _nft("-f", "-", text="\n".join(nft_lines(now, before)))
            self._has_rules = True
        run_all([Ip("", line) for line in gone_lines(now, before)])
        if not self._passes and any(now.routes.values()):
            run_all([Ip("", f"rule add pref {PASSING_THROUGH} not iif lo lookup {TABLE} {OURS}")])
            self._passes = True
        self._now = now
        return True

    def counters(self) -> dict[str, tuple[int, int]]:
        """Packets and bytes by the object id of a rule's counter."""
        if not self._has_rules:
            return {}
        told = json.loads(_nft("-j", "list", "counters", "table", "ip", "vasic"))["nftables"]
        counted = {one["counter"]["name"]: one["counter"] for one in told if "counter" in one}
        found = {rule.counter: counted.get(_counter(rule)) for rule in self._now.rules}
        return {oid: (one["packets"], one["bytes"]) for oid, one in found.items() if one}


def _nft(*words: str, text: str = "") -> str:
    try:
        done = subprocess.run(["nft", *words], input=text, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        raise FabricError("the command `nft` is missing; `make setup` installs it") from None
    if done.returncode:
        raise FabricError(f"nft {' '.join(words)}: {done.stderr.strip()} (of {text!r})")
    return done.stdout
