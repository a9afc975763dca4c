"""Any history of intents, links, neighbours, routes, kills and restarts: packets go where the intent and routes say."""

import random

import pytest
from qclimb.intent import SwitchIntent

from lab.control.vasic.forwarding import Member, forwarding
from switchd import asic, steering
from switchd.apply import Switch
from switchd.paths import APPL_TABLES, is_own
from switchd.qosmap import Refused
from switchd.rows import Drop, Put, Rows
from tests.switchd.test_paths import intent
from tests.switchd.world import Killed, World
from tests.tiers import quick_first

EDGE, LINKS = ("Ethernet0", "Ethernet4"), {"s1": "Ethernet8", "s2": "Ethernet12", "s3": "Ethernet16"}
HOPS = {spine: f"10.0.{n}.1" for n, spine in enumerate(LINKS)}
BEFORE: Rows = {
    "PORT": {port: {"speed": "25000"} for port in (*EDGE, *LINKS.values())},
    "DEVICE_NEIGHBOR": {port: {"name": spine} for spine, port in LINKS.items()},
    "BGP_NEIGHBOR": {address: {"name": spine} for spine, address in HOPS.items()},
}
PREFIXES = ("198.19.2.0/24", "198.19.3.0/24", "198.19.1.0/24")
INTENTS = (None, intent(), intent("s1"), intent("s2", "s1"), intent("s1", "s2", "s3"), intent("s3", "s9"))
EVENTS = ("link", "neighbour", "route", "intent", "take", "restart", "cold", "kill", "takeover")


class Story:
    """A leaf with its daemon; its clock goes only when told."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.chance, self.now_s = random.Random(seed), 1000.0
        clock = type("Clock", (), {"monotonic": lambda _: self.now_s})()
        monkeypatch.setattr(asic, "time", clock)
        monkeypatch.setattr(steering, "time", clock)
        self.world = World(BEFORE, self.chance)
        self.neighbours: set[str] = set()
        self.routes: dict[str, tuple[str, ...]] = {}
        self.wanted: SwitchIntent | None = None
        for port in (*EDGE, *LINKS.values()):
            self.world.appl("INTF_TABLE", port, {"NULL": "NULL"})
            self.world.link(port, True)
        for spine in LINKS:
            self.neighbour(spine, True)
        self.route("198.19.2.0/24", *LINKS)
        self.route("198.19.1.0/24")
        self.switch = Switch(self.world)

    def neighbour(self, spine: str, is_there: bool) -> None:
        (self.neighbours.add if is_there else self.neighbours.discard)(spine)
        row = {"neigh": "00:11:22:33:44:55", "family": "IPv4"} if is_there else None
        self.world.appl("NEIGH_TABLE", f"{LINKS[spine]}:{HOPS[spine]}", row)

    def route(self, prefix: str, *spines: str) -> None:
        self.routes[prefix] = spines
        hops, ports = [HOPS[one] for one in spines] or ["0.0.0.0"], [LINKS[one] for one in spines] or [EDGE[0]]
        self.world.appl("ROUTE_TABLE", prefix, {"nexthop": ",".join(hops), "ifname": ",".join(ports)})

    def looks(self, count: int, seconds: float) -> None:
        """What the loop does meanwhile; orchagent takes what was produced now and then."""
        try:
            for _ in range(count):
                self.now_s += seconds
                self.switch.follow()
                self.switch.look()
                if self.chance.random() < 0.6:
                    self.world.take()
        except Killed:
            self.world.writes_left = 10**9
            self.switch = Switch(self.world)

    def happens(self, what: str) -> None:
        chance, spine = self.chance, self.chance.choice(list(LINKS))
        if what == "link":
            self.world.link(LINKS[spine], chance.random() < 0.6)
        elif what == "neighbour":
            self.neighbour(spine, chance.random() < 0.6)
        elif what == "route":
            self.route(chance.choice(PREFIXES), *chance.sample(list(LINKS), chance.randint(0, 3)))
        elif what == "intent":
            new = chance.choice(INTENTS)
            try:
                self.switch.edit(lambda _: new)
                self.wanted = new
            except Refused as error:
                assert "no uplink leads there" in str(error)
            except Killed:
                self.world.writes_left = 10**9
                self.switch = Switch(self.world)
        elif what == "take":
            self.world.take()
        elif what in ("restart", "cold"):
            if what == "cold":  # as a restart of swss empties APPL_DB of what has no owner that writes it again
                self.world.waiting.clear()
                for table in APPL_TABLES:
                    self.world.appl_rows.pop(table, None)
            self.world.restart()
        elif what == "kill":
            self.world.writes_left = chance.choice((0, 1, 2))
        else:
            self.switch = Switch(self.world)

    def expected(self, dscp: int, prefix: str) -> frozenset[Member] | None:
        paths = {one.dscp: one.path for one in self.wanted.classes} if self.wanted else {}
        spine = paths.get(dscp, "balanced")
        is_way = spine in LINKS and spine in self.routes.get(prefix, (spine,)) and spine in self.neighbours
        if not is_way or LINKS[spine] not in self.world.up or not any(spine in of for of in self.routes.values()):
            return None
        return frozenset({Member(HOPS[spine], LINKS[spine])})

    def goes(self, dscp: int, prefix: str) -> frozenset[Member] | None:
        for rule in forwarding(self.world.machine).rules:
            if EDGE[1] in rule.ports and (rule.dscp is None or rule.dscp[0] == dscp) and rule.to in (None, prefix):
                return None if rule.members is None else frozenset(rule.members)
        return None


@pytest.mark.parametrize("seed", quick_first(range(60), 15))
def test_packets_go_as_intent_and_routes_say(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(seed, monkeypatch)
    story.wanted = INTENTS[4]
    story.switch.edit(lambda _: INTENTS[4])
    for _ in range(20):
        story.happens(story.chance.choice(EVENTS))
        story.looks(story.chance.choice((0, 1, 4)), 0.2)
    story.world.writes_left = 10**9
    story.looks(20, 70.0)
    story.world.take()
    story.looks(4, 70.0)
    for dscp in (47, 43, 39, 35, 0):
        for prefix in PREFIXES:
            assert story.goes(dscp, prefix) == story.expected(dscp, prefix), (dscp, prefix)
    calls = len(story.world.machine.sai.calls)
    story.looks(3, 70.0)
    assert not story.world.waiting
    assert len(story.world.machine.sai.calls) == calls, "a switch at rest writes nothing"
    story.switch.edit(lambda _: None)
    story.looks(6, 70.0)
    story.world.take()
    left = [key for table in APPL_TABLES for key in story.world.appl_rows.get(table, {}) if is_own(key)]
    assert not left
    assert not forwarding(story.world.machine).rules


@pytest.mark.parametrize("what", ["link", "neighbour"])
def test_a_daemon_that_starts_over_a_refused_intent_keeps_redirects_but_for_those_that_lead_nowhere(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(1, monkeypatch)
    story.wanted = INTENTS[4]
    story.switch.edit(lambda _: INTENTS[4])
    story.looks(20, 0.5)
    stands = story.world.appl_rows
    first = story.world.rows["QCLIMB_CLASS"]["2"]
    story.world.change(Put("QCLIMB_CLASS", "2", {**first, "dscp": "46"}), Drop("QCLIMB", "global", ("digest",)))
    story.switch = Switch(story.world)
    story.looks(20, 0.5)
    assert story.switch.snapshot.status.outcome == "refused"
    assert story.world.appl_rows == stands
    if what == "link":
        story.world.link(LINKS["s1"], False)
    else:
        story.neighbour("s1", False)
    story.looks(20, 0.5)
    assert story.goes(47, PREFIXES[0]) is None  # by routing
    assert story.goes(43, PREFIXES[0]) == frozenset({Member(HOPS["s2"], LINKS["s2"])})
    story.world.change(Put("QCLIMB_CLASS", "2", first))
    story.world.link(LINKS["s1"], True)
    story.neighbour("s1", True)
    story.looks(20, 0.5)
    assert story.goes(47, PREFIXES[0]) == frozenset({Member(HOPS["s1"], LINKS["s1"])})


def test_a_daemon_that_writes_says_so_by_the_locks_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(1, monkeypatch)
    story.switch.edit(lambda _: INTENTS[2])
    story.looks(1, 0.2)
    assert all(isinstance(one, Put) for one in story.world.waiting)
