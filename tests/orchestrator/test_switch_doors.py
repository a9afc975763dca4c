"""Both doors of a switch, by the Fleet over mTLS: qclimb's own server with its confirmed commits, and SONiC's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from qclimb.config_db import TABLES, check_whole, with_digest
from qclimb.intent import PathWeights, QueueClass, SwitchIntent

from orchestrator.errors import FleetError
from orchestrator.fabric import sonic_door
from orchestrator.fabric.session import Update
from orchestrator.fabric.sonic_door import operations, rows_of
from orchestrator.fabric.switches import Fleet
from orchestrator.store.store import Switch
from tests.orchestrator.sonic_gnmi import SonicGnmi, serving
from tests.switchd.stand import CONFIG, PLATFORM, Pki, Redis, running_daemon, running_redis, wait_until

BASE = SwitchIntent(1, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 6)), ports=("Ethernet0", "Ethernet4"))
LATER = SwitchIntent(2, "enabled", (QueueClass(0, 47, 7),))
DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def fleet(pki: Path) -> Fleet:
    return Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with running_redis() as found:
        found.load(PLATFORM)
        yield found


@pytest.fixture(scope="module")
def own(server: Redis, pki: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    """A switch whose address is that of switchd's server, which keeps out of others' patches."""
    with running_daemon(server.url, Pki(pki), tmp_path_factory.mktemp("log") / "log", "--quiet-s", "0.5") as daemon:
        yield Switch("l1", f"127.0.0.1:{daemon.port}")


@pytest.fixture
def sonic(server: Redis, own: Switch, pki: Path) -> Iterator[tuple[Switch, SonicGnmi]]:
    """The same switch, by the address of SONiC's server."""
    servicer = SonicGnmi(server)
    with serving(servicer, pki) as port:
        yield Switch("l1", f"127.0.0.1:{port}"), servicer


@pytest.fixture(autouse=True)
def empty(fleet: Fleet, own: Switch, server: Redis) -> Iterator[None]:
    yield
    server.db(CONFIG).delete("QCLIMB_COMMIT|pending")
    with fleet.at(own) as door:
        door.apply(None, DEADLINE_S)


def stored(server: Redis) -> SwitchIntent | None:
    rows = server.rows(*TABLES)
    return SwitchIntent.from_config_db(rows) if rows["QCLIMB"] else None


@contextmanager
def refused(**expected: bool) -> Iterator[pytest.ExceptionInfo[FleetError]]:
    with pytest.raises(FleetError) as error:
        yield error
    assert {name: getattr(error.value, name) for name in expected} == expected, str(error.value)


# qclimb's own server


def test_what_is_committed_and_confirmed_stays(fleet: Fleet, own: Switch, server: Redis) -> None:
    with fleet.at(own) as door:
        assert door.intent() is None
        assert door.commit(BASE, "qclimb-1", 600, DEADLINE_S)
        assert (door.intent(), door.unwell(1)) == (BASE, None)
        door.confirm("qclimb-1")
        door.confirm("qclimb-1")  # said again
        assert not server.db(CONFIG).exists("QCLIMB_COMMIT|pending")
        with refused(refused=True, changed=False):
            door.confirm("qclimb-2")


def test_what_nobody_confirms_is_gone_by_itself(fleet: Fleet, own: Switch, server: Redis) -> None:
    with fleet.at(own) as door:
        door.apply(BASE, DEADLINE_S)
        door.commit(LATER, "qclimb-2", 0.3, DEADLINE_S)
    wait_until(lambda: stored(server) == BASE, "the switch has gone back")
    with fleet.at(own) as door, refused(refused=True):
        door.confirm("qclimb-2")


def test_a_commit_that_is_said_again_waits_anew_and_one_of_another_intent_replaces_it(
    fleet: Fleet, own: Switch, server: Redis
) -> None:
    def until() -> float:
        return float(server.db(CONFIG).hget("QCLIMB_COMMIT|pending", "until"))

    with fleet.at(own) as door:
        door.apply(BASE, DEADLINE_S)
        door.commit(LATER, "qclimb-2", 100, DEADLINE_S)
        first = until()
        assert door.commit(LATER, "qclimb-2", 500, DEADLINE_S)
        assert until() - first > 300
        third = SwitchIntent(3, "enabled", (QueueClass(0, 45, 7),))
        assert door.commit(third, "qclimb-2", 500, DEADLINE_S)
        assert stored(server) == third
        assert door.give_back(BASE, "qclimb-2", DEADLINE_S) == 1
        assert stored(server) == BASE
        assert door.give_back(None, "qclimb-2", DEADLINE_S) == 0
        assert stored(server) is None


def test_somebody_elses_commit_is_not_touched(fleet: Fleet, own: Switch, server: Redis) -> None:
    with fleet.at(own) as door:
        door.commit(BASE, "a-person", 600, DEADLINE_S)
        for say in (
            lambda: door.commit(LATER, "qclimb-2", 600, DEADLINE_S),
            lambda: door.give_back(LATER, "qclimb-2", DEADLINE_S),
            lambda: door.apply(LATER, DEADLINE_S),
        ):
            with refused(refused=True, changed=False) as error:
                say()
            assert "commit 'a-person' of " in str(error.value)
    assert stored(server) == BASE


def test_an_orchestrator_that_was_replaced_changes_nothing(fleet: Fleet, own: Switch, pki: Path, server: Redis) -> None:
    old = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)
    old.term, fleet.term = 7, 8
    try:
        with fleet.at(own) as door:
            door.apply(BASE, DEADLINE_S)
        with old.at(own) as door, refused(refused=True, changed=False) as error:
            door.commit(LATER, "qclimb-2", 600, DEADLINE_S)
        assert "PERMISSION_DENIED" in str(error.value) and "another one is master" in str(error.value)
    finally:
        fleet.term = 0
    assert stored(server) == BASE


def is_connected(port: int) -> bool:
    """Whether this network namespace has a connection to that port."""
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    ends = [line.split()[2:4] for line in lines]
    return any(peer.endswith(f":{port:04X}") and state == "01" for peer, state in ends)


def test_a_session_of_a_switch_that_was_removed_or_moved_is_closed(
    pki: Path, own: Switch, sonic: tuple[Switch, SonicGnmi]
) -> None:
    fleet = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)
    ports = own.endpoint[1], sonic[0].endpoint[1]
    for switch in (own, sonic[0]):
        fleet.state(switch)
    fleet.keep_sessions([own, sonic[0]])
    assert all(map(is_connected, ports))
    fleet.keep_sessions([sonic[0]])  # it moved there
    wait_until(lambda: not is_connected(ports[0]), "the session at the former address is closed")
    assert is_connected(ports[1])
    fleet.keep_sessions([])
    wait_until(lambda: not is_connected(ports[1]), "the session is closed")


def test_a_push_may_take_as_long_as_the_switchs_own_server_does(
    pki: Path, own: Switch, sonic: tuple[Switch, SonicGnmi]
) -> None:
    fleet = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)
    unknown_s = fleet.longest_push_s(own.name, 30)
    with fleet.at(own):
        own_s = fleet.longest_push_s(own.name, 30)
    with fleet.at(sonic[0]):
        sonic_s = fleet.longest_push_s(sonic[0].name, 30)
    assert own_s < 120 < sonic_s == unknown_s
    assert sonic_s >= sonic_door.SET_S + sonic_door.APPLIED_S


# SONiC's own server


def test_by_sonics_server_an_intent_arrives_as_rows_and_is_applied(
    fleet: Fleet, sonic: tuple[Switch, SonicGnmi], server: Redis
) -> None:
    switch, servicer = sonic
    with fleet.at(switch) as door:
        assert door.intent() is None
        assert not door.commit(BASE, "qclimb-1", 600, DEADLINE_S)  # nothing to be confirmed there
        door.confirm("qclimb-1")
        assert (door.intent(), stored(server), door.unwell(1)) == (BASE, BASE, None)
        check_whole(server.rows(*TABLES))
        assert server.rows("QUEUE")["QUEUE"]
        assert door.told().verification == "unverified"
        assert door.apply(LATER, DEADLINE_S) == 2
        assert (stored(server), len(servicer.sets)) == (LATER, 2)
        assert door.give_back(BASE, "qclimb-1", DEADLINE_S) == 1
        assert stored(server) == BASE
        before = len(servicer.sets)
        door.apply(BASE, DEADLINE_S)
        assert len(servicer.sets) == before  # there was nothing to write
        assert door.apply(None, DEADLINE_S) == 0
        assert (stored(server), door.intent()) == (None, None)
        assert "expected 9" in str(door.unwell(9))


def test_what_the_switch_applies_is_told_by_a_stream_and_nobody_asks(
    fleet: Fleet, sonic: tuple[Switch, SonicGnmi]
) -> None:
    switch, servicer = sonic
    with fleet.at(switch) as door:
        assert door.apply(BASE, DEADLINE_S) == 1
        assert door.apply(LATER, DEADLINE_S) == 2
    assert (servicer.subscribed, servicer.asked.count("STATE_DB")) == (["STATE_DB"] * 2, 0)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT])
def test_a_server_that_has_no_streams_is_asked_again_and_again(
    code: grpc.StatusCode, fleet: Fleet, sonic: tuple[Switch, SonicGnmi]
) -> None:
    switch, servicer = sonic
    servicer.streams = code
    with fleet.at(switch) as door:
        assert door.apply(BASE, DEADLINE_S) == 1
    assert (servicer.subscribed, "STATE_DB" in servicer.asked) == (["STATE_DB"], True)


class Silent:
    """A session whose stream tells the first status and no other, though the switch has gone on."""

    def __init__(self) -> None:
        self.is_over, self.is_left = False, False

    def changes(self, path: Any, *, target: str, timeout_s: float) -> Iterator[Any]:
        try:
            yield {"desired_generation": "1", "applied_generation": "1", "outcome": "applied"}
            self.is_over = True
        finally:
            self.is_left = True

    def get(self, path: Any, kind: str = "ALL", **_: Any) -> Any:
        if path[-1] in TABLES:
            return None
        return {"desired_generation": "2", "applied_generation": "2"} if self.is_over else pytest.fail("asked too soon")

    def set(self, **_: Any) -> None:
        pass


def test_at_the_end_of_a_stream_the_switch_is_asked_once_more() -> None:
    session = Silent()
    door = sonic_door.SonicDoor(Switch("l1", "127.0.0.1:1"), session)  # type: ignore[arg-type]
    assert door.apply(LATER, 0) == 2
    assert door.apply(BASE, 0) == 1
    assert session.is_left


@pytest.mark.parametrize(
    ("elements", "value", "said", "written"),
    [
        (["QCLIMB_CLASS", "0", "queue"], 6, "Invalid field 6", "7"),
        (["QCLIMB_CLASS", "0"], {"dscp": "47", "queue": 6}, "there are still some parts not updated", "6"),
        (["QCLIMB_CLASS", "0"], "6", "Invalid entry 6", "7"),
        (["QCLIMB_CLASS"], "6", "Invalid table 6", "7"),
        (["QCLIMB_CLASS", "0", "queue"], "6", "", "6"),
    ],
)
def test_its_values_are_text_all_the_way_down(
    elements: list[str],
    value: Any,
    said: str,
    written: str,
    fleet: Fleet,
    sonic: tuple[Switch, SonicGnmi],
    server: Redis,
) -> None:
    """Why the door sends no number: not every one is refused before it is written."""
    switch, _ = sonic
    server.load(SwitchIntent(1, "enabled", (QueueClass(0, 47, 7),)).to_config_db())
    with fleet.at(switch) as door:
        wanted = [Update([*sonic_door.PLACE, *elements], value)]
        try:
            door._session.set(update=wanted, origin=sonic_door.MODEL)
        except grpc.RpcError as error:
            assert said and said in error.details()
        else:
            assert not said
    assert server.rows("QCLIMB_CLASS")["QCLIMB_CLASS"]["0"]["queue"] == written


def test_a_patch_that_breaks_half_way_may_have_changed_the_switch_which_takes_no_half_intent(
    fleet: Fleet, sonic: tuple[Switch, SonicGnmi], server: Redis
) -> None:
    switch, servicer = sonic
    with fleet.at(switch) as door:
        door.apply(BASE, DEADLINE_S)
        before = server.rows("QUEUE", "PORT_QOS_MAP")
        servicer.fails_after = 1
        with refused(changed=True, refused=False) as error:
            door.apply(LATER, DEADLINE_S)
        assert "still some parts not updated" in str(error.value)
        wait_until(lambda: "waiting for a whole intent" in server.status().get("last_error", ""), "the switch says so")
        assert server.rows("QUEUE", "PORT_QOS_MAP") == before
        servicer.fails_after = 10**9
        assert door.give_back(BASE, "qclimb-1", DEADLINE_S) == 1
        assert stored(server) == BASE


def test_a_role_that_may_not_write_and_an_intent_that_the_switch_refuses_say_so(
    fleet: Fleet, sonic: tuple[Switch, SonicGnmi], server: Redis
) -> None:
    switch, _ = sonic
    with fleet.at(switch) as door, refused(changed=True) as error:
        door.apply(SwitchIntent(5, "enabled", (QueueClass(0, 47, 7),), ports=("Ethernet99",)), DEADLINE_S)
    assert "expected 5; it says: port 'Ethernet99' is not in the table PORT" in str(error.value)
    assert " after " not in str(error.value)  # as soon as the switch says so
    server.db(CONFIG).hset("GNMI_CLIENT_CERT|orchestrator", "role@", "gnmi_config_db_readonly")
    try:
        with fleet.at(switch) as door, refused(changed=True) as error:
            door.apply(BASE, DEADLINE_S)
        assert "does not have access" in str(error.value)
    finally:
        server.db(CONFIG).hset("GNMI_CLIENT_CERT|orchestrator", "role@", "gnmi_config_db_readwrite")


def test_a_server_that_is_neither_is_named(fleet: Fleet, server: Redis, pki: Path) -> None:
    class Other(SonicGnmi):
        def Capabilities(self, request: Any, context: Any) -> Any:
            found = super().Capabilities(request, context)
            found.supported_models[0].name = "openconfig-interfaces"
            return found

    with serving(Other(server), pki) as port:
        reached = fleet.at(Switch("l1", f"127.0.0.1:{port}"))
        with refused(changed=False) as error, reached:
            pass
    assert "serves the models openconfig-interfaces, expected qclimb or sonic-db" in str(error.value)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, ""),
        ({"desired_generation": "5", "outcome": "refused", "last_error": "no such port"}, "no such port"),
        ({"desired_generation": "4", "outcome": "refused", "last_error": "no such port"}, ""),  # of the intent before
        ({"desired_generation": "5", "outcome": "waiting", "last_error": "Ethernet0 is not there yet"}, ""),
        ({"desired_generation": "5", "outcome": "applied", "applied_generation": "5"}, ""),
    ],
)
def test_a_switch_refuses_what_it_says_that_of_and_no_other_generation(status: dict[str, str], why: str) -> None:
    assert sonic_door.refusal(status, 5) == why


# Rows as operations


def test_operations_leave_no_empty_table_and_touch_only_what_differs() -> None:
    base, later = with_digest(BASE.to_config_db()), with_digest(LATER.to_config_db())
    delete, update = operations({}, base)
    assert (delete, [list(one.path[2:]) for one in update]) == ([], [["QCLIMB"], ["QCLIMB_CLASS"]])
    assert update[0].value["global"]["ports"] == "Ethernet0,Ethernet4"
    delete, update = operations(base, later)
    assert [path[2:] for path in delete] == [["QCLIMB_CLASS", "1"]]
    assert [list(one.path[2:]) for one in update] == [["QCLIMB", "global"]]
    assert operations(base, base) == ([], [])
    weighted = SwitchIntent(4, "enabled", (QueueClass(0, 47, 7),), path_weights=PathWeights({"s1": 1.0}))
    assert [path[2:] for path in operations(with_digest(weighted.to_config_db()), later)[0]] == [["QCLIMB_PATH"]]
    assert [path[2:] for path in operations(later, {})[0]] == [["QCLIMB"], ["QCLIMB_CLASS"]]


@pytest.mark.parametrize("found", [None, [], {"global": 3}, "text"])
def test_what_is_no_table_has_no_rows(found: Any) -> None:
    assert rows_of(found) == {}
