"""A switch to which nothing happens: what the daemon does not do then, and that it hears when something does."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from switchd import steering
from switchd.apply import Switch
from switchd.db import DatabaseLost
from switchd.db_redis import RedisDatabase
from tests.switchd.stand import APPL, STATE, Redis, wait_until
from tests.switchd.test_seen import running_orchagent
from tests.switchd.test_steering import Leaf, intent


class Counting(RedisDatabase):
    """Counts what is asked of APPL_DB."""

    asked = 0

    def command(self, number: int, words: Any) -> str:
        self.asked += number == APPL
        return super().command(number, words)


@pytest.fixture
def leaf(server: Redis) -> Iterator[Leaf]:
    with running_orchagent(server) as orchagent:
        yield Leaf(server, orchagent)


@pytest.fixture
def switch(server: Redis, leaf: Leaf, monkeypatch: pytest.MonkeyPatch) -> Iterator[Switch]:
    """One with two pinned classes, at rest."""
    monkeypatch.setattr(steering, "REST_S", 3600.0)
    monkeypatch.setattr(steering, "SETTLE_S", 0.2)
    db = Counting(server.url)
    found = Switch(db)
    found.edit(lambda _: intent(1, "s1", "s2"))
    wait_until(lambda: looked(found) and leaf.goes(47) == {"Ethernet8"}, "the class is pinned")
    settled(found)
    yield found
    db.close()


def looked(switch: Switch) -> bool:
    switch.look()
    return True


def asked(switch: Switch) -> int:
    assert isinstance(switch.db, Counting)
    return switch.db.asked


def settled(switch: Switch) -> None:
    """Go on until what changed has settled."""
    steerer = switch._steerer
    assert steerer is not None
    wait_until(lambda: looked(switch) and steerer._rest_until_s > time.monotonic() + 1800, "the network is at rest")


def rests(switch: Switch, looks: int = 5) -> bool:
    """Whether so many looks read nothing of APPL_DB, each after its time."""
    before = asked(switch)
    for _ in range(looks):
        time.sleep(steering.LOOK_S)
        switch.look()
    return asked(switch) == before


def test_at_rest_the_network_is_read_only_when_redis_tells_of_a_change(switch: Switch, leaf: Leaf) -> None:
    leaf.server.db(APPL).hset("LLDP_ENTRY_TABLE:Ethernet8", "lldp_rem_time_mark", "1")  # nothing of ours
    leaf.server.db(APPL).hset("NEIGH_TABLE:Ethernet0:198.19.1.5", "neigh", "00:11:22:33:44:66")  # a host
    assert rests(switch)
    leaf.link("Ethernet8", False)
    wait_until(lambda: looked(switch) and leaf.goes(47) == "", "the redirect went with its link")
    leaf.link("Ethernet8", True)
    wait_until(lambda: looked(switch) and leaf.goes(47) == {"Ethernet8"}, "it came back with the link")
    leaf.route("198.19.3.0/24", "s1", "s2")
    leaf.route("198.19.2.0/24", "s2")
    wait_until(lambda: looked(switch) and leaf.goes(47) is None, "a route without the spine counts")
    settled(switch)
    assert rests(switch)


def test_our_own_rules_that_go_are_written_again_at_once(switch: Switch, leaf: Leaf, server: Redis) -> None:
    (rule,) = leaf.told("QCLIMB_CLASS_STATE", 0)["rules"].split(",")
    server.db(APPL).delete(f"ACL_RULE_TABLE:{rule}")
    wait_until(lambda: looked(switch) and server.db(APPL).exists(f"ACL_RULE_TABLE:{rule}"), "the rule is there again")


def test_a_redis_that_comes_back_is_read_anew(switch: Switch, leaf: Leaf, server: Redis) -> None:
    server.kill()
    with pytest.raises(DatabaseLost):
        wait_until(lambda: not looked(switch), "it is noticed")
    server.start()
    server.db(APPL).hset("PORT_TABLE:Ethernet8", "oper_status", "down")  # nobody hears that
    switch.follow()
    wait_until(
        lambda: looked(switch) and server.db(STATE).hget("QCLIMB_SPINE_STATE|s1", "status") == "down",
        "what was written before anybody listened is seen",
    )


class Watched(dict[str, Any]):
    """Rows that count who looks."""

    looks = 0

    def get(self, *args: Any) -> Any:
        self.looks += 1
        return super().get(*args)


def test_rows_that_left_nothing_over_are_not_gone_through_again(switch: Switch) -> None:
    done = switch._written
    assert done is not None
    done.rows = Watched(done.rows)
    assert not switch._asic.has_more(done.rows)
    first = done.rows.looks
    assert first
    assert not switch._asic.has_more(done.rows)
    assert done.rows.looks == first
    switch._asic._members.leavers.add("Ethernet0|0")
    assert not switch._asic.has_more(done.rows)
    assert done.rows.looks > first
