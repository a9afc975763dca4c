"""An intent that an earlier version stored, and that today's rules refuse: it stands still and is in nobody's way."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb import leaves
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.migrations import migration
from switchd.rows import Rows
from tests.switchd.gcu import NotValid
from tests.switchd.gnmi.client import GENERATION, channel, failure, ietf, intent, one, stored, update
from tests.switchd.stand import PLATFORM, Pki, Redis, running_daemon, wait_until
from tests.switchd.test_histories import BEFORE
from tests.switchd.test_two_writers import Box, patch
from tests.switchd.world import World

FREE = "an integer in 0..2, 5..45, 47, 49..63"
REFUSED = {
    3: "lossless",
    4: "lossless",
    46: "expedited forwarding",
    48: "routing protocols",
}


@contextmanager
def yesterday() -> Iterator[None]:
    """The rules before a class was refused these DSCPs."""
    with pytest.MonkeyPatch.context() as before:
        before.setattr(leaves, "NOT_OURS", {})
        yield


def old(dscp: int) -> SwitchIntent:
    with yesterday():
        return SwitchIntent(7, "enabled", (QueueClass(0, 47, 7), QueueClass(1, dscp, 5)))


NEW = SwitchIntent(8, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 5)))
MTU: dict[tuple[str, str], dict[str, str] | None] = {("PORT", "Ethernet0"): {"speed": "25000", "mtu": "9000"}}


@pytest.fixture
def upgraded(monkeypatch: pytest.MonkeyPatch) -> Box:
    """Yesterday's daemon applied DSCP 46; today's follows the same rows."""
    box = Box(monkeypatch)
    with yesterday():
        box.switch.edit(lambda _: old(46))
        box.settled(7)
    box.switch = Switch(box.world, quiet_s=10.0)
    return box


def test_it_keeps_what_stands_and_says_which_value_to_set_to_what(upgraded: Box) -> None:
    before, upgraded.world.writes_left = upgraded.world.rows, 0
    upgraded.passes(60)
    assert upgraded.world.rows == before
    assert migration(before) == ()  # nobody can tell which DSCP the hosts should write instead
    status = upgraded.switch.snapshot.status
    assert (status.outcome, status.applied_generation) == ("refused", 7)
    assert status.last_error == (
        f"QCLIMB_CLASS|1 dscp is 46, expected {FREE}: switches keep 46 for expedited forwarding"
    )


def test_a_patch_of_anything_else_passes_and_so_does_one_of_the_intent(upgraded: Box) -> None:
    upgraded.passes(20)
    upgraded.gcu.apply(MTU)
    assert upgraded.world.rows["PORT"]["Ethernet0"]["mtu"] == "9000"
    upgraded.gcu.apply({("QCLIMB_CLASS", "1"): {**upgraded.world.rows["QCLIMB_CLASS"]["1"], "threshold_bytes": "9"}})
    upgraded.gcu.apply(patch(NEW, upgraded.world.rows))
    upgraded.settled(8)
    upgraded.gcu.apply(patch(None, upgraded.world.rows))
    upgraded.settled(None)
    assert not upgraded.has_ours


def test_what_no_version_took_no_patch_takes(upgraded: Box) -> None:
    with pytest.raises(NotValid, match="dscp"):
        upgraded.gcu.apply({("QCLIMB_CLASS", "1"): {"dscp": "64", "queue": "5"}})


@pytest.mark.parametrize("dscp", REFUSED)
@pytest.mark.parametrize("leaf", ["dscp", "unpinned_dscp"])
def test_each_of_them_is_told_and_nothing_is_written_for_it(leaf: str, dscp: int) -> None:
    rows: Rows = {**BEFORE, **old(43).to_config_db()}
    table, key = ("QCLIMB_CLASS", "1") if leaf == "dscp" else ("QCLIMB", "global")
    rows[table][key] = {**rows[table][key], leaf: str(dscp)}
    world = World(rows, random.Random(1))
    world.writes_left, switch = 0, Switch(world)
    switch.follow()
    assert switch.snapshot.status.last_error == (
        f"{table}|{key} {leaf} is {dscp}, expected {FREE}: switches keep {dscp} for {REFUSED[dscp]}"
    )


@pytest.mark.parametrize("whole", ["/", "/qclimb"])
def test_a_set_of_the_whole_replaces_it_and_one_of_a_part_can_not_take_the_rest_away(
    server: Redis, pki: Pki, tmp_path_factory: pytest.TempPathFactory, whole: str
) -> None:
    server.load(PLATFORM | old(46).to_config_db())
    log = tmp_path_factory.mktemp("log") / "switchd.log"
    with running_daemon(server.url, pki, log) as daemon, channel(daemon, "orchestrator") as wire:
        stub = gnmi_pb2_grpc.gNMIStub(wire)
        wait_until(lambda: server.status().get("outcome") == "refused", "the intent is refused")
        before = server.rows("QCLIMB", "QCLIMB_CLASS", "PORT_QOS_MAP", "QUEUE")
        code, text = failure(lambda: stub.Set(one(GENERATION, ietf("9"))))
        assert code == grpc.StatusCode.FAILED_PRECONDITION.name
        assert text == (
            f"QCLIMB_CLASS|1 dscp is 46, expected {FREE}: switches keep 46 for expedited forwarding"
            "; a part can't be laid over that, the whole can take its place"
        )
        assert server.rows("QCLIMB", "QCLIMB_CLASS", "PORT_QOS_MAP", "QUEUE") == before
        stub.Set(pb.SetRequest(replace=[update(whole, ietf(intent(9, 7, 6).to_gnmi()))]))
        assert stored(server) == intent(9, 7, 6)
