"""Commits that have to be confirmed, and who may write of several: by a raw stub, over redis and a daemon that dies."""

import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_ext_pb2, gnmi_pb2_grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.gnmi_ext import Commit, Election, written
from qclimb.intent import SwitchIntent

from switchd.apply import Switch
from switchd.commits import ROLLBACK_S, Clock, CommitError, Pending
from switchd.elections import ROLES_MOST, TooManyRoles
from switchd.gnmi.access import Client
from switchd.gnmi.server import status_of
from tests.switchd.gnmi.client import BASE, channel, config_rows, failure, give, got, ietf, intent, stored, update
from tests.switchd.stand import CONFIG, PLATFORM, STATE, Daemon, Pki, Redis, running_daemon, running_redis, wait_until

LATER = intent(2, 7, 6)
ROW = "QCLIMB_COMMIT|pending"
WHO = "orchestrator at 127.0.0.1"


def extended(*extensions: Commit | Election, wanted: SwitchIntent | None = None) -> pb.SetRequest:
    return pb.SetRequest(
        replace=[update("/", ietf(wanted.to_gnmi()))] if wanted else [],
        extension=[gnmi_ext_pb2.Extension.FromString(written(each)) for each in extensions],
    )


def told(stub: gnmi_pb2_grpc.gNMIStub) -> dict[str, Any]:
    (values,) = got(stub, "/qclimb/state/commit")
    return {name.removeprefix("qclimb:"): value for value in values for name, value in value.items()}


def laid(server: Redis) -> list[Any]:
    found = server.effect("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP")
    return [found["PORT_QOS_MAP"], found["QUEUE"]]


@pytest.fixture(autouse=True)
def nothing_pending(shared: tuple[Redis, Daemon]) -> Iterator[None]:
    yield
    shared[0].db(CONFIG).delete(ROW)


def test_a_confirmed_commit_stays(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
    assert stored(server) == LATER
    assert (told(stub)["id"], told(stub)["status"], "rollback-at" in told(stub)) == ("one", "pending", True)
    assert told(stub)["client"] == server.db(CONFIG).hget(ROW, "client") == WHO
    stub.Set(extended(Commit("one", "confirm")))
    assert told(stub) == {"id": "one", "status": "confirmed", "client": WHO}
    assert not server.db(CONFIG).exists(ROW)
    assert stored(server) == LATER


def test_a_commit_that_nobody_confirms_is_undone_in_time(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    before = (config_rows(server), laid(server))
    stub.Set(extended(Commit("one", "commit", 0.3), wanted=LATER))
    wait_until(lambda: told(stub).get("status") == "rolled-back", "the commit is undone")
    assert (config_rows(server), laid(server)) == before
    assert not server.db(CONFIG).exists(ROW)
    give(stub, LATER)


def test_the_first_intent_of_all_is_undone_to_none(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    stub.Set(extended(Commit("one", "commit", 0.3), wanted=BASE))
    wait_until(lambda: told(stub).get("status") == "rolled-back", "the commit is undone")
    assert not any(config_rows(server).values())
    assert not any(server.rows("QUEUE", "SCHEDULER", "QCLIMB_PREVIOUS").values())


def test_a_cancelled_commit_is_undone_at_once(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    before = config_rows(server)
    stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
    stub.Set(extended(Commit("one", "cancel")))
    assert config_rows(server) == before
    assert told(stub) == {"id": "one", "status": "cancelled", "client": WHO}


def test_its_time_can_be_set_anew(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
    first = told(stub)["rollback-at"]
    stub.Set(extended(Commit("one", "set_rollback_duration", 3600)))
    assert told(stub)["rollback-at"] > first
    stub.Set(extended(Commit("one", "set_rollback_duration", 0.1)))
    wait_until(lambda: stored(server) == BASE, "the commit is undone")


def test_while_one_is_pending_every_other_set_is_refused_and_changes_nothing(
    stub: gnmi_pb2_grpc.gNMIStub, server: Redis
) -> None:
    give(stub, BASE)
    assert failure(lambda: stub.Set(extended(Commit("one", "confirm")))) == (
        "FAILED_PRECONDITION",
        "commit 'one': none is pending",
    )
    stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
    before = config_rows(server)
    waits = f"commit 'one' of {WHO} is pending, expected it confirmed or cancelled first"
    assert failure(lambda: give(stub, BASE)) == ("FAILED_PRECONDITION", waits)
    for again in ("one", "two"):
        assert failure(lambda again=again: stub.Set(extended(Commit(again, "commit"), wanted=BASE))) == (
            "FAILED_PRECONDITION",
            waits,
        )
    for action, seconds in (("confirm", None), ("cancel", None), ("set_rollback_duration", 9.0)):
        code, text = failure(lambda a=action, s=seconds: stub.Set(extended(Commit("two", a, s))))
        assert (code, text) == ("INVALID_ARGUMENT", "commit 'two': 'one' is pending")
        code, text = failure(lambda a=action, s=seconds: stub.Set(extended(Commit("one", a, s), wanted=BASE)))
        assert (code, "takes no operation beside it" in text) == ("INVALID_ARGUMENT", True)
    assert config_rows(server) == before
    assert failure(lambda: stub.Set(pb.SetRequest())) == ("FAILED_PRECONDITION", waits)  # though it asks for nothing
    stub.Set(extended(Election("lab-2", 1)))  # a new master tells that it is one
    stub.Set(extended(Commit("one", "cancel")))
    stub.Set(pb.SetRequest())


def test_a_duration_of_nothing_is_the_default_as_gnmic_says_it(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(extended(Commit("one", "commit", 0.0), wanted=LATER))
    assert float(server.db(CONFIG).hget(ROW, "rollback_s")) == ROLLBACK_S
    code, text = failure(lambda: stub.Set(extended(Commit("one", "set_rollback_duration", 0.0))))
    assert (code, "rollback_duration is 0 s, expected more than 0" in text) == ("INVALID_ARGUMENT", True)
    stub.Set(extended(Commit("one", "cancel")))


def test_a_commit_that_is_refused_is_none(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    code, _ = failure(lambda: stub.Set(extended(Commit("one", "commit"), wanted=intent(3, 7, ports=("Ethernet99",)))))
    assert code == "FAILED_PRECONDITION"
    assert not server.db(CONFIG).exists(ROW)
    give(stub, LATER)


def test_what_somebody_else_wrote_meanwhile_stays(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(extended(Commit("one", "commit", 1), wanted=LATER))
    with server.db(CONFIG).pipeline() as pipe:
        pipe.hdel("QCLIMB|global", "digest")
        pipe.hset("QCLIMB|global", "generation", "77")
        pipe.execute()
    wait_until(lambda: told(stub).get("status") == "overtaken", "the commit ends")
    assert stored(server).generation == 77
    assert not server.db(CONFIG).exists(ROW)


def test_a_row_that_somebody_takes_away_ends_the_commit(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
    server.db(CONFIG).delete(ROW)
    wait_until(lambda: told(stub) == {"id": "one", "status": "overtaken", "client": WHO}, "it is told")
    give(stub, BASE)


def test_a_row_that_nobody_can_read_does_not_lock_the_door_for_ever(
    stub: gnmi_pb2_grpc.gNMIStub, server: Redis
) -> None:
    give(stub, BASE)
    server.db(CONFIG).hset(ROW, mapping={"id": "x", "until": "soon"})
    wait_until(lambda: not server.db(CONFIG).exists(ROW), "the row is gone")
    give(stub, LATER)


def killed(daemon: Daemon) -> None:
    daemon.process.kill()
    daemon.process.wait()


@pytest.mark.parametrize("seconds", [0.2, 600.0])
def test_a_commit_survives_a_daemon_that_is_killed_and_is_undone_only_in_its_time(
    seconds: float, pki: Pki, tmp_path: Path
) -> None:
    with running_redis() as server:
        server.load(PLATFORM)
        start = partial(running_daemon, server.url, pki, tmp_path / "log")
        with start() as first, channel(first, "orchestrator") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            give(stub, BASE)
            stub.Set(extended(Commit("one", "commit", 600), wanted=LATER))
            killed(first)
        if seconds < 1:  # its time is over while nobody is there
            server.db(CONFIG).hset(ROW, "until", f"{time.time() - 1:.3f}")
        with start() as second, channel(second, "orchestrator") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            if seconds < 1:
                wait_until(lambda: stored(server) == BASE, "the commit is undone by the next daemon")
                wait_until(lambda: told(stub).get("status") == "rolled-back", "it is told")
            else:
                wait_until(lambda: told(stub).get("status") == "pending", "the next daemon knows of it")
                assert stored(server) == LATER
                assert failure(lambda: give(stub, BASE))[0] == "FAILED_PRECONDITION"
                stub.Set(extended(Commit("one", "confirm")))
                assert stored(server) == LATER


def test_a_commit_whose_time_ends_while_redis_is_away_is_undone_when_it_is_back(pki: Pki, tmp_path: Path) -> None:
    with running_redis() as server:
        server.load(PLATFORM)
        with running_daemon(server.url, pki, tmp_path / "log") as daemon, channel(daemon, "orchestrator") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            give(stub, BASE)
            stub.Set(extended(Commit("one", "commit", 1), wanted=LATER))
            server.kill()
            time.sleep(1.1)
            server.start()
            wait_until(lambda: stored(server) == BASE, "the commit is undone")


def test_a_clock_that_is_set_makes_no_commit_wait_longer_than_it_asked() -> None:
    now = [1000.0]
    clock = Clock(lambda: now[0])
    clock.watch(Pending("a", rollback_s=0.05, until_s=1000.05, digest="", previous={}))
    now[0] = -(10.0**9)
    assert not clock.is_due
    fresh = Clock(lambda: now[0])  # a switch that starts with its clock years behind
    fresh.watch(Pending("a", rollback_s=0.05, until_s=1000.05, digest="", previous={}))
    time.sleep(0.1)
    assert clock.is_due
    assert fresh.is_due
    fresh.watch(None)
    assert not fresh.is_due


def test_a_clock_that_is_set_while_a_daemon_runs_undoes_no_commit_before_its_time() -> None:
    now = [1000.0004]
    clock = Clock(lambda: now[0])
    pending = Pending("a", rollback_s=600.0, until_s=1600.0004, digest="", previous={})
    clock.start(pending)
    assert not clock.is_due, "it is not written yet"
    clock.watch(pending)
    now[0] += 10.0**9
    for read in (Pending.from_row(pending.to_row()), None, Pending.from_row(pending.to_row())):
        clock.watch(read)
        assert not clock.is_due
    later = Pending("a", rollback_s=1200.0, until_s=now[0] + 1200.0, digest="", previous={})
    clock.start(later)
    now[0] += 10.0**9
    clock.watch(Pending.from_row(later.to_row()))
    assert not clock.is_due
    fresh = Clock(lambda: now[0])
    fresh.watch(later)
    assert fresh.is_due, "over a restart nothing but the wall clock is left"


@pytest.mark.parametrize("previous", ["", "[]", "null", '{"QCLIMB": 3}', '{"QCLIMB": {"global": 3}}', "[" * 10**5])
def test_previous_rows_that_are_none_are_an_error(previous: str) -> None:
    row = {"id": "a", "rollback_s": "1", "until": "2", "digest": "", "previous": previous}
    with pytest.raises(CommitError, match=r"QCLIMB_COMMIT\|pending can't be read"):
        Pending.from_row(row)
    assert Pending.from_row({**row, "previous": json.dumps({"OTHER": {}})}).previous == {}


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        ("ipv4:198.18.0.5:40000", "me?[2J at 198.18.0.5"),
        ("ipv6:%5B2001:db8::5%5D:40000", "me?[2J at 2001:db8::5"),
        ("unix:", "me?[2J"),
    ],
)
def test_whose_a_commit_is_can_be_printed_whatever_a_certificate_says(peer: str, told: str) -> None:
    assert Client("me\x1b[2J", True).at(peer) == told


# Master arbitration


def test_the_largest_election_id_of_a_role_writes(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    stub.Set(extended(Election("lab", 2**70)))  # a new master tells that it is one
    code, text = failure(lambda: stub.Set(extended(Election("lab", 9), wanted=BASE)))
    assert (code, str(2**70) in text) == ("PERMISSION_DENIED", True)
    assert not config_rows(server)["QCLIMB"]
    stub.Set(extended(Election("other", 1), wanted=BASE))
    stub.Set(extended(Election("lab", 2**70), Commit("one", "commit"), wanted=LATER))
    assert failure(lambda: stub.Set(extended(Election("lab", 9), Commit("one", "confirm"))))[0] == "PERMISSION_DENIED"
    stub.Set(extended(Election("lab", 2**70 + 1), Commit("one", "confirm")))
    give(stub, BASE)  # who takes no part is not kept out
    assert server.db(STATE).hgetall("QCLIMB_ELECTION|lab") == {"election_id": str(2**70 + 1)}
    server.db(STATE).delete("QCLIMB_ELECTION|lab")
    assert failure(lambda: stub.Set(extended(Election("lab", 2**70))))[0] == "PERMISSION_DENIED"
    code, text = failure(
        lambda: stub.Get(
            pb.GetRequest(path=[path("/qclimb")], encoding=4, extension=extended(Election("", 1)).extension)
        )
    )
    assert (code, "does not belong to a GetRequest" in text) == ("INVALID_ARGUMENT", True)


def test_no_more_roles_are_kept_than_anybody_needs(alone: Redis, switch: Switch) -> None:
    for number in range(ROLES_MOST):
        with switch.writing(Election(f"role-{number}", 1)):
            pass
    with pytest.raises(TooManyRoles, match="64 roles are known already") as error, switch.writing(Election("more", 1)):
        pass
    assert status_of(error.value)[0].name == "RESOURCE_EXHAUSTED"
    with switch.writing(Election("role-0", 2)):
        pass


def test_an_election_outlives_the_daemon(pki: Pki, tmp_path: Path) -> None:
    with running_redis() as server:
        server.load(PLATFORM)
        start = partial(running_daemon, server.url, pki, tmp_path / "log")
        with start() as first, channel(first, "orchestrator") as found:
            gnmi_pb2_grpc.gNMIStub(found).Set(extended(Election("", 8)))
            killed(first)
        with start() as second, channel(second, "orchestrator") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            assert failure(lambda: stub.Set(extended(Election("", 7))))[0] == "PERMISSION_DENIED"
            stub.Set(extended(Election("", 8), wanted=BASE))
