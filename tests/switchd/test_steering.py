"""Paths over a real redis: the daemon, orchagent's stand-in, and what APPL_DB tells of links, neighbours and routes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qclimb.intent import BALANCED, PathWeights, QueueClass, SwitchIntent

from lab.control.vasic.follow import Follower
from lab.control.vasic.forwarding import forwarding
from tests.switchd.stand import APPL, CONFIG, COUNTERS, STATE, Daemon, Pki, Redis, running_daemon, wait_until
from tests.switchd.test_seen import running_orchagent

UPLINKS = {"s1": "Ethernet8", "s2": "Ethernet12"}
HOPS = {"s1": "10.0.0.1", "s2": "10.0.1.1"}
SHARES = PathWeights({"s1": 0.75, "s2": 0.25})
ACL = ("ACL_TABLE_TYPE_TABLE", "ACL_TABLE_TABLE", "ACL_RULE_TABLE")


class Leaf:
    """A switch between hosts on Ethernet0 and 4 and two spines."""

    def __init__(self, server: Redis, orchagent: Follower) -> None:
        self.server, self.orchagent = server, orchagent
        rows: dict[str, dict[str, dict[str, str]]] = {"DEVICE_NEIGHBOR": {}, "BGP_NEIGHBOR": {}}
        for spine, port in UPLINKS.items():
            rows["DEVICE_NEIGHBOR"][port] = {"name": spine, "port": "Ethernet0"}
            rows["BGP_NEIGHBOR"][HOPS[spine]] = {"name": spine}
        server.load(rows)
        self.appl = server.db(APPL)
        for port in ("Ethernet0", "Ethernet4", *UPLINKS.values()):
            self.produce("INTF_TABLE", port, NULL="NULL")
            self.link(port, True)
        for spine in UPLINKS:
            self.produce("NEIGH_TABLE", f"{UPLINKS[spine]}:{HOPS[spine]}", neigh="00:11:22:33:44:55", family="IPv4")
        self.route("198.19.2.0/24", "s1", "s2")
        self.produce("ROUTE_TABLE", "198.19.1.0/24", nexthop="0.0.0.0", ifname="Ethernet0")

    def produce(self, table: str, key: str, **row: str) -> None:
        """As fpmsyncd and the others hand rows over."""
        with self.appl.pipeline() as pipe:
            pipe.sadd(f"{table}_KEY_SET", key)
            if row:
                pipe.hset(f"_{table}:{key}", mapping=row)
            else:
                pipe.sadd(f"{table}_DEL_SET", key)
                pipe.delete(f"_{table}:{key}")
            pipe.publish(f"{table}_CHANNEL@0", "G")
            pipe.execute()

    def route(self, prefix: str, *spines: str, weight: str = "1,1") -> None:
        hops, ports = ",".join(HOPS[s] for s in spines), ",".join(UPLINKS[s] for s in spines)
        self.produce("ROUTE_TABLE", prefix, nexthop=hops, ifname=ports, weight=weight if len(spines) > 1 else "1")

    def link(self, port: str, is_up: bool) -> None:
        self.orchagent.links({port: is_up})

    def want(self, wanted: SwitchIntent) -> None:
        self.server.load(wanted.to_config_db())

    def told(self, table: str, key: object) -> dict[str, str]:
        return self.server.db(STATE).hgetall(f"{table}|{key}")

    def goes(self, dscp: int, to: str = "198.19.2.0/24") -> Any:
        """Where the ASIC's first rule for this DSCP and very prefix sends packets; "": no rule."""
        for rule in forwarding(self.orchagent.machine).rules:
            if (rule.dscp is None or rule.dscp[0] == dscp) and rule.to in (None, to):
                return rule.members and {one.interface for one in rule.members}
        return ""

    def own_rows(self) -> list[str]:
        return [key for table in ACL for key in self.appl.keys(f"*{table}:QCLIMB_*")]


@pytest.fixture
def leaf(server: Redis) -> Iterator[Leaf]:
    with running_orchagent(server) as orchagent:
        yield Leaf(server, orchagent)


@pytest.fixture
def daemon(leaf: Leaf, server: Redis, pki: Pki, tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(server.url, pki, tmp_path / "log") as found:
        yield found


def intent(generation: int, *paths: str, **more: Any) -> SwitchIntent:
    classes = tuple(
        QueueClass(p, 47 - 4 * p, 5 if path == BALANCED else 6, path) for p, path in enumerate((*paths, BALANCED))
    )
    return SwitchIntent(generation, more.pop("state", "enabled"), classes, **more)


def test_packets_are_pinned_follow_the_network_and_are_given_back(leaf: Leaf, daemon: Daemon, server: Redis) -> None:
    wait_until(lambda: leaf.told("QCLIMB_SPINE_STATE", "s1").get("status") == "up", "spines are told without an intent")
    leaf.want(intent(1, "s1", "s2", unpinned_dscp=51))
    wait_until(lambda: leaf.told("QCLIMB_CLASS_STATE", 1).get("status") == "applied", "the classes are pinned")
    wait_until(lambda: (leaf.goes(47), leaf.goes(43)) == ({"Ethernet8"}, {"Ethernet12"}), "each by its spine")
    assert leaf.goes(47, "198.19.1.0/24") is None
    assert (leaf.goes(51), leaf.goes(39)) == ("", "")
    leaf.link("Ethernet8", False)
    wait_until(lambda: leaf.goes(47) == "", "the redirect went with its link")
    wait_until(lambda: leaf.told("QCLIMB_CLASS_STATE", 0).get("status") == "fallen-back", "it is told")
    assert "Ethernet8 is down" in leaf.told("QCLIMB_SPINE_STATE", "s1")["reason"]
    assert leaf.goes(43) == {"Ethernet12"}
    leaf.link("Ethernet8", True)
    wait_until(lambda: leaf.goes(47) == {"Ethernet8"}, "it came back with the link")
    leaf.route("198.19.2.0/24", "s2")
    leaf.route("198.19.3.0/24", "s1", "s2")
    wait_until(lambda: leaf.goes(47) is None, "a route without the spine counts above the redirect")
    leaf.want(intent(2, "s1", "s2", state="disabled"))
    wait_until(lambda: not leaf.own_rows(), "nothing is left")
    assert server.status()["applied_generation"] == "2"


def test_nothing_of_anybody_elses_is_touched_and_a_restart_of_orchagent_is_mended(leaf: Leaf, daemon: Daemon) -> None:
    leaf.produce("ACL_TABLE_TABLE", "DATAACL", type="L3", stage="ingress", ports="Ethernet0")
    leaf.want(intent(1, "s1", "s2"))
    wait_until(lambda: leaf.goes(47) == {"Ethernet8"}, "the class is pinned")
    rules = sorted(leaf.appl.keys("ACL_RULE_TABLE:*"))
    for key in rules:
        leaf.appl.delete(key)
    leaf.produce("ACL_TABLE_TABLE", "QCLIMB_V4")
    wait_until(lambda: leaf.goes(47) == {"Ethernet8"} and sorted(leaf.appl.keys("ACL_RULE_TABLE:*")) == rules, "again")
    leaf.want(intent(2, "s1", "s2", state="disabled"))
    wait_until(lambda: not leaf.own_rows(), "ours are gone")
    assert leaf.appl.exists("ACL_TABLE_TABLE:DATAACL")


def test_counters_and_shares_are_told_by_gnmi(leaf: Leaf, daemon: Daemon, server: Redis) -> None:
    leaf.want(intent(1, "s1", "s2", path_weights=SHARES))
    wait_until(lambda: leaf.told("QCLIMB_CLASS_STATE", 0).get("rules"), "the class has a rule")
    oids = wait_until(lambda: server.db(COUNTERS).hgetall("ACL_COUNTER_RULE_MAP"), "rules count")
    for rule in leaf.told("QCLIMB_CLASS_STATE", 0)["rules"].split(","):
        counted = {"SAI_ACL_COUNTER_ATTR_PACKETS": "12", "SAI_ACL_COUNTER_ATTR_BYTES": "9000"}
        server.db(COUNTERS).hset(f"COUNTERS:{oids[rule]}", mapping=counted)
    with daemon.client() as client:

        def tree_with_spines() -> Any:
            answer = client.get(path=["/qclimb"], datatype="state", encoding="json_ietf")
            tree = answer["notification"][0]["update"][0]["val"]
            return tree if "qclimb:spines" in tree else None

        tree = wait_until(tree_with_spines, "the spines' state is there")
    (first, second) = tree["qclimb:spines"]["spine"]
    assert first["state"]["packets"] == "12"
    assert first["state"]["bytes"] == "9000"
    assert first["state"]["interfaces"] == ["Ethernet8"]
    assert first["state"]["next-hops"] == ["10.0.0.1"]
    assert (first["state"]["status"], second["state"]["status"]) == ("up", "up")
    assert tree["qclimb:classes"]["class"][0]["state"]["packets"] == "12"
    assert tree["qclimb:state"]["path-backend"] == "acl"
    share = tree["qclimb:paths"]["path"][0]["state"]
    assert share["status"] == "equal-cost"
    assert "weights: not applied (the routes are FRR's" in share["reason"]
    leaf.route("198.19.2.0/24", "s1", "s2", weight="255,85")
    wait_until(lambda: leaf.told("QCLIMB_PATH_STATE", "s1").get("status") == "active", "the routes have the weights")


def test_a_daemon_that_takes_over_keeps_what_stands(leaf: Leaf, server: Redis, pki: Pki, tmp_path: Path) -> None:
    leaf.want(intent(1, "s1", "s2"))
    with running_daemon(server.url, pki, tmp_path / "first"):
        wait_until(lambda: leaf.told("QCLIMB_CLASS_STATE", 1).get("status") == "applied", "the classes are pinned")
    calls = len(leaf.orchagent.machine.sai.calls)
    server.db(STATE).delete("QCLIMB_CLASS_STATE|1")
    with running_daemon(server.url, pki, tmp_path / "second"):
        wait_until(lambda: leaf.told("QCLIMB_CLASS_STATE", 1).get("status") == "applied", "the second one tells it")
    assert not [call for call in leaf.orchagent.machine.sai.calls[calls:] if "ACL" in call]
    with running_daemon(server.url, pki, tmp_path / "none", "--paths", "none"):
        wait_until(lambda: "needs a path backend" in server.status().get("last_error", ""), "none refuses paths")
    assert server.db(CONFIG).exists("QCLIMB_CLASS|0")
