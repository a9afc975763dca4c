"""ACL entries and next-hop groups as ASIC_DB has them, held against the rows that ask for them."""

import random
from typing import Any

import pytest

from switchd import entries
from switchd.db import ASIC
from switchd.entries import Entries, difference
from switchd.network import NetworkReader
from switchd.paths import RULES, Network, steer
from switchd.rows import Row
from switchd.uplinks import uplinks_of
from switchd.weights import why_not
from tests.switchd.test_path_histories import BEFORE, HOPS, LINKS, Story
from tests.switchd.test_paths import intent
from tests.switchd.world import World

E = "SAI_ACL_ENTRY_ATTR_"
RULE = {"PRIORITY": "1000", "IP_TYPE": "IPV4ANY", "DSCP": "47", "REDIRECT_ACTION": "10.0.0.1@Ethernet8"}
HAS: Row = {
    f"{E}TABLE_ID": "oid:0x7",
    f"{E}PRIORITY": "1000",
    f"{E}ADMIN_STATE": "true",
    f"{E}ACTION_COUNTER": "oid:0x9",
    f"{E}FIELD_ACL_IP_TYPE": "SAI_ACL_IP_TYPE_IPV4ANY",
    f"{E}FIELD_DSCP": "47&mask:0x3f",
    f"{E}ACTION_REDIRECT": "oid:0x4",
}
HOP = ("10.0.0.1@Ethernet8",)
TO = {"DST_IP": "198.19.2.0/24"}
HAS_TO = {f"{E}FIELD_DST_IP": "198.19.2.0&mask:255.255.255.0"}
SIX = {"DST_IPV6": "2001:db8::/32"}
HAS_SIX = {f"{E}FIELD_DST_IPV6": "2001:db8::&mask:ffff:ffff::"}
FORWARD = {name: value for name, value in RULE.items() if name != "REDIRECT_ACTION"} | {"PACKET_ACTION": "FORWARD"}


@pytest.mark.parametrize(
    ("rule", "entry", "hops", "said"),
    [
        (RULE, HAS, HOP, ""),
        (RULE, HAS, ("10.0.0.1",), ""),
        (RULE | TO, HAS | HAS_TO, HOP, ""),
        (RULE | SIX, HAS | HAS_SIX, HOP, ""),
        (FORWARD, HAS | {f"{E}ACTION_PACKET_ACTION": "SAI_PACKET_ACTION_FORWARD"}, (), ""),
        (FORWARD, HAS | {f"{E}ACTION_PACKET_ACTION": "SAI_PACKET_ACTION_DROP"}, (), "does DROP"),
        (RULE, HAS | {f"{E}PRIORITY": "1001"}, HOP, "has priority 1001"),
        (RULE, HAS | {f"{E}FIELD_DSCP": "43&mask:0x3f"}, HOP, "matches DSCP 43"),
        (RULE, HAS | {f"{E}FIELD_DSCP": "47&mask:0x30"}, HOP, "DSCP can't be read: '47&mask:0x30'"),
        (RULE, HAS | {f"{E}FIELD_DSCP": "many"}, HOP, "DSCP can't be read: 'many'"),
        (RULE, HAS | HAS_TO, HOP, "matches DSCP 47, DST_IP 198.19.2.0/24"),
        (RULE | TO, HAS | {f"{E}FIELD_DST_IP": "198.19.2.0&mask:255.0.255.0"}, HOP, "DST_IP can't be read"),
        (RULE, HAS | {f"{E}FIELD_IN_PORTS": "1:oid:0x1"}, HOP, "IN_PORTS 1:oid:0x1"),
        (RULE, HAS, ("10.0.1.1@Ethernet8",), "leads to 10.0.1.1@Ethernet8"),
        (RULE, HAS, ("10.0.0.1@Ethernet12",), "leads to 10.0.0.1@Ethernet12"),
        (RULE, HAS, (), "leads to nothing that is known"),
        (RULE, HAS, (*HOP, "10.0.1.1@Ethernet12"), "leads to 10.0.0.1@Ethernet8, 10.0.1.1@Ethernet12"),
    ],
)
def test_an_entry_is_a_rule_or_the_difference_is_told(rule: Row, entry: Row, hops: tuple[str, ...], said: str) -> None:
    found = difference(rule, entry, hops)
    assert (said in found) if said else not found


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    found = Story(1, monkeypatch)
    found.switch.edit(lambda _: intent("s1", "s2"))
    found.looks(40, 0.5)
    assert [found.world.state["QCLIMB_CLASS_STATE"][key]["status"] for key in ("0", "1")] == ["applied"] * 2
    return found


def told(story: Story, priority: int = 0) -> Row:
    return story.world.state["QCLIMB_CLASS_STATE"][str(priority)]


def of_rule(story: Story, dscp: int = 47) -> tuple[str, Any]:
    return next((rule.entry, rule) for _, rule in story.world.machine.acl.standing() if f"D{dscp}_" in rule.name)


@pytest.mark.parametrize("how", ["gone", "elsewhere", "other-dscp"])
def test_active_is_not_applied_where_the_asic_says_otherwise_and_is_written_again(story: Story, how: str) -> None:
    """STATE_DB goes on saying Active."""
    oid, _ = of_rule(story)
    objects = story.world.machine.sai.objects["ACL_ENTRY"]
    before = dict(objects[oid])
    if how == "gone":
        del objects[oid]
    elif how == "elsewhere":
        objects[oid][f"{E}ACTION_REDIRECT"] = objects[of_rule(story, 43)[0]][f"{E}ACTION_REDIRECT"]
    else:
        objects[oid][f"{E}FIELD_DSCP"] = "1&mask:0x3f"
    take, story.world.take = story.world.take, lambda: None  # type: ignore[method-assign]
    story.looks(110, 0.1)
    assert told(story)["status"] == "pending"
    assert "orchagent says Active, but" in told(story)["reason"]
    assert told(story, 1)["status"] == "applied"
    ((place, differs),) = story.world.state["QCLIMB_ASIC_STATE"].items()
    assert place.startswith("ACL_RULE_TABLE|QCLIMB_V4:D47_") and "DSCP 47" in differs["wanted"]
    objects[oid] = before  # what orchagent deletes must be there
    story.world.take = take  # type: ignore[method-assign]
    story.looks(60, 0.5)
    assert told(story)["status"] == "applied"
    assert not story.world.state.get("QCLIMB_ASIC_STATE")


def test_without_an_asic_db_nothing_is_said_to_be_seen(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = story.world.hashes

    def without(number: int, keys: Any) -> list[Row]:
        return [{} if key.startswith("COUNTERS_") else row for key, row in zip(keys, hashes(number, keys), strict=True)]

    monkeypatch.setattr(story.world, "hashes", without)
    story.looks(40, 0.5)
    assert (told(story)["status"], told(story)["reason"]) == (
        "applied",
        "written, not verified: ASIC_DB can't be read",
    )


def test_what_was_seen_is_not_read_again_before_the_next_search_and_searches_take_their_time(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, scans = [0.0], [0]
    rules = {key: row for key, row in story.world.appl_rows[RULES].items() if row.get("DSCP") in ("47", "43")}
    seen = Entries(story.world, lambda: now_s[0])
    scan, hashes = story.world.scan, story.world.hashes
    reads: list[str] = []

    def counted(number: int, pattern: str) -> Any:
        scans[0] += 1
        now_s[0] += 0.5
        return scan(number, pattern)

    def read(number: int, keys: Any) -> list[Row]:
        if number == ASIC:
            reads.extend(keys)
        return hashes(number, keys)

    monkeypatch.setattr(story.world, "scan", counted)
    monkeypatch.setattr(story.world, "hashes", read)
    assert (seen.unseen(rules), scans[0]) == ({}, 1)
    reads.clear()
    assert seen.unseen(rules) == {} and not reads
    late = {**rules, "QCLIMB_V4:D1_0_0": {**RULE, "DSCP": "1"}}
    for _ in range(5):
        assert seen.unseen(late) == {"QCLIMB_V4:D1_0_0": "the ASIC has no entry of it"}
    assert scans[0] == 1
    now_s[0] += entries.PAUSE
    seen.unseen(late)
    assert scans[0] == 2


def test_groups_tell_members_and_weights_and_shares_are_held_against_them() -> None:
    world = World(BEFORE, random.Random(1))
    for port in BEFORE["PORT"]:
        world.appl("INTF_TABLE", port, {"NULL": "NULL"})
        world.link(port, True)
    for spine, port in LINKS.items():
        world.appl("NEIGH_TABLE", f"{port}:{HOPS[spine]}", {"neigh": "00:11:22:33:44:55", "family": "IPv4"})
    hops, ports = f"{HOPS['s1']},{HOPS['s2']}", f"{LINKS['s1']},{LINKS['s2']}"
    route = {"nexthop": hops, "ifname": ports, "weight": "3,1"}
    world.appl("ROUTE_TABLE", "198.19.2.0/24", route)
    entries = Entries(world)
    assert entries.groups() == [{f"{HOPS['s1']}@{LINKS['s1']}": 3, f"{HOPS['s2']}@{LINKS['s2']}": 1}]
    world.appl("ROUTE_TABLE", "198.19.2.0/24", None)
    assert entries.groups(), "as read until the next search"
    entries.forget()
    assert entries.groups() == []
    world.appl("ROUTE_TABLE", "198.19.2.0/24", route)
    story_intent = intent("s1")
    uplinks = uplinks_of(story_intent, world.rows)
    reader = NetworkReader(world)
    reader.search(uplinks)
    network = reader.read(uplinks, has_shares=True)
    shares = {"s1": 0.75, "s2": 0.25}
    assert why_not(shares, uplinks, network) == ""
    without = Network(routes=network.routes, groups=({f"{HOPS['s1']}@{LINKS['s1']}": 1},))
    assert "the ASIC has no next-hop group for 198.19.2.0/24" in why_not(shares, uplinks, without)
    assert steer(story_intent, uplinks, network).spines["s1"]["status"] == "up"
