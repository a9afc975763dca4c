"""What is applied is what the ASIC has: the daemon over a real redis with orchagent's stand-in below it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from lab.control.vasic.follow import Follower
from switchd.progress import Progress
from switchd.rows import Row
from switchd.schedulers import scheduled
from switchd.seen import Asic, Verdict, compared
from tests.switchd.stand import ASIC, CONFIG, COUNTERS, STATE, Pki, Redis, running_daemon, wait_until


@contextmanager
def running_orchagent(server: Redis) -> Iterator[Follower]:
    """A machine that takes rows as orchagent does and tells its objects in ASIC_DB."""
    follower, stop = Follower(str(server.socket)), threading.Event()
    follower.start()

    def loop() -> None:
        while not stop.is_set():
            if follower.wait(0.02):
                follower.take()
                follower.tell()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield follower
    finally:
        stop.set()
        thread.join(60)


@pytest.fixture
def orchagent(server: Redis) -> Iterator[Follower]:
    with running_orchagent(server) as found:
        yield found


@pytest.fixture
def daemon(orchagent: Follower, server: Redis, pki: Pki, tmp_path: Path) -> Iterator[Path]:
    with running_daemon(server.url, pki, tmp_path / "log"):
        yield tmp_path / "log"


def intent(generation: int, *queues: int, state: str = "enabled", **more: object) -> SwitchIntent:
    return SwitchIntent(generation, state, tuple(QueueClass(p, 47 - 4 * p, q) for p, q in enumerate(queues)), **more)  # type: ignore[arg-type]


def seen(server: Redis, generation: int) -> None:
    wait_until(
        lambda: (s := server.status()).get("applied_generation") == str(generation) and s.get("verified") == "seen",
        f"generation {generation} is seen",
    )


def states(server: Redis) -> dict[str, dict[str, str]]:
    state = server.db(STATE)
    return {key.partition("|")[2]: state.hgetall(key) for key in state.keys("QCLIMB_PORT_STATE|*")}


def queue_in_asic(server: Redis, port: str, dscp: int) -> int:
    """Where the ASIC sends a packet, read as syncd's ASIC would."""
    asic, maps = server.db(ASIC), []
    oid = server.db(COUNTERS).hget("COUNTERS_PORT_NAME_MAP", port)
    attributes = asic.hgetall(f"ASIC_STATE:SAI_OBJECT_TYPE_PORT:{oid}")
    for name, key, value in (("DSCP_TO_TC", "dscp", "tc"), ("TC_TO_QUEUE", "tc", "qidx")):
        bound = attributes.get(f"SAI_PORT_ATTR_QOS_{name}_MAP", "oid:0x0")
        row = asic.hgetall(f"ASIC_STATE:SAI_OBJECT_TYPE_QOS_MAP:{bound}")
        entries = json.loads(row["SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"])["list"] if row else []
        maps.append({one["key"][key]: one["value"][value] for one in entries})
    return int(maps[1].get(maps[0].get(dscp, 0), 0))


def test_applied_is_what_the_asic_has(server: Redis, daemon: Path) -> None:
    server.load(intent(3, 7, 6, ecn_min_bytes=1000, ecn_max_bytes=2000).to_config_db())
    seen(server, 3)
    assert [queue_in_asic(server, "Ethernet8", dscp) for dscp in (47, 43, 0)] == [7, 6, 0]
    assert states(server) == {f"Ethernet{4 * n}": {"status": "applied"} for n in range(4)}
    server.load(intent(4, 7, 5, ecn_min_bytes=1000, ecn_max_bytes=3000).to_config_db())
    seen(server, 4)
    assert [queue_in_asic(server, "Ethernet8", dscp) for dscp in (47, 43, 0)] == [7, 5, 0]
    wait_until(lambda: len(server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"]) == 1, "the old map is deleted")
    wait_until(lambda: len(server.rows("WRED_PROFILE")["WRED_PROFILE"]) == 1, "the old profile is deleted")
    told = [line for line in daemon.read_text().splitlines() if line.split(" ports=")[0].endswith("generation=4")]
    assert [line.split()[-3:] for line in told if " seen " in line or line.startswith("seen ")] == [
        ["seen", "generation=4", "ports=4"]
    ], told


def test_an_edited_object_is_left_and_the_repair_arrives(server: Redis, daemon: Path, orchagent: Follower) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    seen(server, 3)
    (name,) = server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"]
    (scheduler,) = server.rows("SCHEDULER")["SCHEDULER"]
    with server.db(CONFIG).pipeline() as pipe:
        pipe.hset(f"DSCP_TO_TC_MAP|{name}", "47", "0")
        pipe.hset(f"SCHEDULER|{scheduler}", "pir", "5000")
        pipe.execute()
    wait_until(lambda: name not in server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"], "the edited map is gone")
    wait_until(lambda: scheduler not in server.rows("SCHEDULER")["SCHEDULER"], "the edited scheduler is gone")
    seen(server, 3)
    assert queue_in_asic(server, "Ethernet0", 47) == 7
    wait_until(lambda: not list(orchagent.machine.pending()), "nothing is parked")


def test_somebodys_del_and_set_of_our_row_is_healed(server: Redis, daemon: Path, orchagent: Follower) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    seen(server, 3)
    (name,) = server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"]
    with server.db(CONFIG).pipeline() as pipe:
        pipe.delete(f"DSCP_TO_TC_MAP|{name}")
        pipe.hset(f"DSCP_TO_TC_MAP|{name}", mapping={"47": "3"})
        pipe.execute()
    wait_until(lambda: name not in server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"], "the name is left")
    seen(server, 3)
    assert queue_in_asic(server, "Ethernet0", 47) == 7


def test_a_parked_name_is_left_by_a_port_that_comes_later(server: Redis, daemon: Path) -> None:
    """Its content is right in CONFIG_DB, and the ASIC never takes a new reference to it."""
    server.load(intent(3, 7, 6, ports=("Ethernet0",)).to_config_db())
    seen(server, 3)
    (name,) = server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"]
    row = server.rows("DSCP_TO_TC_MAP")["DSCP_TO_TC_MAP"][name]
    with server.db(CONFIG).pipeline() as pipe:
        pipe.delete(f"DSCP_TO_TC_MAP|{name}")
        pipe.hset(f"DSCP_TO_TC_MAP|{name}", mapping=row)
        pipe.execute()
    server.load(intent(4, 7, 6, ports=("Ethernet0", "Ethernet4")).to_config_db())
    seen(server, 4)
    assert [queue_in_asic(server, port, 47) for port in ("Ethernet0", "Ethernet4")] == [7, 7]


def test_a_malformed_row_of_somebody_else_is_named_and_stops_no_rollout(server: Redis, daemon: Path) -> None:
    server.load({"DSCP_TO_TC_MAP": {"AAA": {"x": "y"}}})
    server.load(intent(3, 7, 6).to_config_db())
    wait_until(lambda: states(server).get("Ethernet0", {}).get("status") == "refused", "it counts as a refusal")
    reason = states(server)["Ethernet0"]["reason"]
    assert reason.startswith("DSCP_TO_TC_MAP|AAA blocks DSCP_TO_TC_MAP|QCLIMB_D_")
    seen(server, 3)
    server.db(CONFIG).delete("DSCP_TO_TC_MAP|AAA")
    wait_until(lambda: states(server)["Ethernet0"] == {"status": "applied"}, "it arrives when the row is gone")
    assert queue_in_asic(server, "Ethernet12", 43) == 6


def test_until_it_is_seen_it_is_pending_with_the_reason(server: Redis, daemon: Path) -> None:
    server.load({"PORT_QOS_MAP": {"Ethernet4": {"pfc_to_pg_map": "MISSING"}}})
    server.load(intent(3, 7, 6).to_config_db())
    wait_until(lambda: states(server).get("Ethernet0", {}).get("status") == "applied", "one is seen")
    assert states(server)["Ethernet4"]["status"] == "pending"
    assert (
        "PORT_QOS_MAP|Ethernet4 waits for PFC_PRIORITY_TO_PRIORITY_GROUP_MAP|MISSING" in server.status()["last_error"]
    )
    assert "applied_generation" not in server.status()
    assert server.db(STATE).hget("QCLIMB_CLASS_STATE|0", "status") == "pending"
    told = "QCLIMB_ASIC_STATE|PORT_QOS_MAP|Ethernet4|dscp_to_tc_map"
    row = wait_until(lambda: server.db(STATE).hgetall(told), "what was wanted and found is told")
    assert (row["status"], row["wanted"], row["found"]) == ("pending", "64 fields", "none")
    wait_until(lambda: states(server)["Ethernet4"]["status"] == "refused", "somebody else's row counts as a refusal")
    seen(server, 3)


def test_a_port_that_comes_late_gets_its_rows_again(server: Redis, daemon: Path, orchagent: Follower) -> None:
    server.load({"PORT": {"Ethernet16": {"speed": "25000"}}})
    server.load(intent(3, 7, 6).to_config_db())
    seen(server, 3)
    assert queue_in_asic(server, "Ethernet16", 47) == 7


def test_a_port_that_comes_after_the_intent_is_seen_with_its_scheduler_groups(
    server: Redis, daemon: Path, orchagent: Follower
) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    seen(server, 3)
    server.load({"PORT": {"Ethernet16": {"speed": "25000"}}})
    server.load(intent(4, 7, 6).to_config_db())
    seen(server, 4)
    assert "Ethernet16" in orchagent.ports


def test_the_state_follows_orchagents_restart(server: Redis, pki: Pki, tmp_path: Path) -> None:
    with running_daemon(server.url, pki, tmp_path / "log"):
        server.load(intent(3, 7, 6).to_config_db())
        wait_until(lambda: server.status().get("applied_generation") == "3", "the rows are written")
        assert server.status()["verified"] == "written, not verified"
        for _ in range(2):
            with running_orchagent(server):
                seen(server, 3)
                server.load(intent(3, 7, 5).to_config_db())
                server.load(intent(3, 7, 6).to_config_db())
                seen(server, 3)


def test_a_killed_daemon_goes_on_where_it_was(server: Redis, pki: Pki, tmp_path: Path) -> None:
    with running_orchagent(server) as orchagent:
        for generation in range(3, 9):
            with running_daemon(server.url, pki, tmp_path / "log") as daemon:
                server.load(intent(generation, 7, 6 - generation % 3).to_config_db())
                wait_until(lambda: server.rows("QUEUE")["QUEUE"], "something is written")
                daemon.process.kill()
        with running_daemon(server.url, pki, tmp_path / "log"):
            seen(server, 8)
            wait_until(lambda: len(server.rows("TC_TO_QUEUE_MAP")["TC_TO_QUEUE_MAP"]) == 1, "old names are deleted")
            wait_until(lambda: not list(orchagent.machine.pending()), "nothing is parked")
        assert [queue_in_asic(server, "Ethernet0", dscp) for dscp in (47, 43)] == [7, 4]


# bad input

ROWS = {
    "DSCP_TO_TC_MAP": {"QCLIMB_D_00000000_0": {"0": "1"}},
    "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "QCLIMB_D_00000000_0"}},
}
PLACE = ("PORT_QOS_MAP", "Ethernet0", "dscp_to_tc_map")
GOOD = '{"count":1,"list":[{"key":{"dscp":0},"value":{"tc":1}}]}'


def asic(value: str = GOOD, **more: object) -> Asic:
    objects = {
        "oid:0x1": {"SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP": "oid:0x2"},
        "oid:0x2": {"SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST": value},
    }
    return Asic(**{"ports": {"Ethernet0": "oid:0x1"}, "queues": {}, "objects": objects, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        (asic(), "seen", ""),
        (asic("{"), "unverified", "can't be read"),
        (asic('{"list":[{}]}'), "unverified", "can't be read"),
        (asic('{"list":null}'), "unverified", "can't be read"),
        (asic('{"list":[{"key":{"dscp":0},"value":{"tc":2}}]}'), "pending", "dscp 0 goes to tc 2, expected 1"),
        (asic(ports={}), "unverified", "COUNTERS_PORT_NAME_MAP of COUNTERS_DB does not name Ethernet0"),
        (asic(ports={"Ethernet0": "oid:0x1", "Ethernet4": "oid:0x1"}), "unverified", "names one object oid:0x1"),
        (asic(objects={}), "unverified", "ASIC_DB has no object oid:0x1"),
        (asic(ports={"Ethernet0": "oid:0x1", "": "oid:0x7", "Ethernet0:x": "oid:0x8"}), "seen", ""),
        (asic(objects={"oid:0x1": {"NULL": "NULL"}}), "pending", "has no dscp_to_tc_map in the ASIC"),
        (asic(objects={"oid:0x1": {"SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP": "oid:0x9"}}), "unverified", "does not have"),
    ],
)
def test_what_can_not_be_believed_is_never_applied(found: Asic, state: str, reason: str) -> None:
    verdict = compared(ROWS, found, ["Ethernet0"], {})[PLACE]
    assert verdict.state == state
    assert reason in verdict.reason


@pytest.mark.parametrize(
    ("queues", "reason"),
    [
        ({"Ethernet0:7": "oid:0x5", "Ethernet0:6": "oid:0x5"}, "names one object oid:0x5 for Ethernet0:7 and another"),
        ({"Ethernet4:7": "oid:0x5"}, "does not name Ethernet0:7"),
        ({"Ethernet0:7": "oid:0x6"}, "ASIC_DB has no object oid:0x6"),
    ],
)
def test_a_queue_whose_object_is_not_its_own_or_not_there_is_never_applied(queues: Row, reason: str) -> None:
    name = "QCLIMB_W_00000000_0"
    rows = {"WRED_PROFILE": {name: {"ecn": "ecn_all"}}, "QUEUE": {"Ethernet0|7": {"wred_profile": name}}}
    objects = {"oid:0x1": {"NULL": "NULL"}, "oid:0x5": {"SAI_QUEUE_ATTR_WRED_PROFILE_ID": "oid:0x2"}}
    found = Asic({"Ethernet0": "oid:0x1"}, queues, {**objects, "oid:0x2": {"SAI_WRED_ATTR_ECN_MARK_MODE": "x"}})
    verdict = compared(rows, found, ["Ethernet0"], {})["QUEUE", "Ethernet0|7", "wred_profile"]
    assert verdict.state == "unverified"
    assert reason in verdict.reason


def test_a_place_that_still_has_the_old_names_object_is_not_there_yet() -> None:
    old = "QCLIMB_D_00000000_1"
    for maps, state in (({old: {"0": "1"}}, "pending"), ({}, "seen")):
        rows = {**ROWS, "DSCP_TO_TC_MAP": {**ROWS["DSCP_TO_TC_MAP"], **maps}}
        assert compared(rows, asic(), ["Ethernet0"], {"oid:0x2": old})[PLACE].state == state


def test_an_object_id_that_orchagent_gave_to_another_since_is_told_by_its_content() -> None:
    """Known by the id of before a restart; the row of that name has other content."""
    other = "QCLIMB_D_00000000_1"
    rows = {**ROWS, "DSCP_TO_TC_MAP": {**ROWS["DSCP_TO_TC_MAP"], other: {"0": "7"}}}
    assert compared(rows, asic(), ["Ethernet0"], {"oid:0x2": other})[PLACE].state == "seen"


def test_a_port_that_orchagent_never_creates_is_a_refusal_of_its_own_after_a_while() -> None:
    found = compared(ROWS, asic(ports={"Ethernet4": "oid:0x1"}), ["Ethernet0"], {})
    progress = Progress()
    progress.learn(ROWS, found, 0.0)
    refused, waiting = progress.ports(0.0)
    assert (refused, waiting["Ethernet0"][0]) == ({}, "pending")
    refused, waiting = progress.ports(10.0)
    assert "orchagent has not created the port" in refused["Ethernet0"]
    assert not waiting
    assert not progress.is_due(1000.0)


def test_what_was_written_waits_until_it_is_looked_at() -> None:
    progress = Progress()
    progress.learn(ROWS, compared(ROWS, asic(), ["Ethernet0"], {}), 0.0)
    assert not progress.waits
    fresh = "QCLIMB_D_00000000_7"
    rows = {"DSCP_TO_TC_MAP": {fresh: {"0": "1"}}, "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": fresh}}}
    progress.expect(rows, rows, {("PORT_QOS_MAP", "Ethernet0"), ("DSCP_TO_TC_MAP", fresh)}, 1.0)
    assert progress.ports(1.0) == ({}, {"Ethernet0": ("pending", "written, not looked at yet")})
    assert progress.bound(rows, 1.0).held == {"QCLIMB_D_00000000_0"}
    progress.learn(rows, compared(rows, asic(), ["Ethernet0"], {}), 1.1)
    assert not progress.waits


def strict_queues(count: int, *carried: str) -> tuple[dict[str, dict[str, dict[str, str]]], Asic]:
    """So many queues of one port with our scheduler, and groups with the objects `carried`."""
    name = "QCLIMB_S_00000000_0"
    rows = {
        "SCHEDULER": {name: {"type": "STRICT"}, "scheduler.2": {"type": "STRICT", "weight": "20"}},
        "QUEUE": {f"Ethernet0|{queue}": {"scheduler": name} for queue in range(count)},
    }
    strict = {"SAI_SCHEDULER_ATTR_SCHEDULING_TYPE": "SAI_SCHEDULING_TYPE_STRICT"}
    objects = {"oid:0xa": strict, "oid:0xb": {**strict, "SAI_SCHEDULER_ATTR_SCHEDULING_WEIGHT": "20"}}
    groups = {f"group {n}": {"SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID": oid} for n, oid in enumerate(carried)}
    return rows, Asic({"Ethernet0": "oid:0x1"}, {f"Ethernet0:{n}": f"oid:{n}" for n in range(8)}, objects, groups)


@pytest.mark.parametrize(("ours", "state"), [(2, "seen"), (1, "pending")])
def test_a_strict_scheduler_of_somebody_else_counts_for_its_own_queues_alone(ours: int, state: str) -> None:
    rows, asic = strict_queues(2, *["oid:0xa"] * ours, "oid:0xb")
    rows["QUEUE"]["Ethernet0|7"] = {"scheduler": "scheduler.2"}
    found = scheduled(rows, asic, {})
    assert found is not None and found.state == state


@pytest.mark.parametrize(
    ("key", "row"),
    [("Ethernet0|\udcff", {"scheduler": "S"}), ("Ethernet0|" + "9" * 5000, {}), ("Ethernet0|3", {"\udcff": "\udcff"})],
)
def test_a_row_of_odd_bytes_or_numbers_is_told_and_ends_nothing(key: str, row: dict[str, str]) -> None:
    rows = {**ROWS, "QUEUE": {key: row, "Ethernet4|1": {"scheduler": "QCLIMB_S_00000000_0"}}}
    place = ("QUEUE", "Ethernet4|1", "scheduler")
    progress = Progress()
    progress.learn(rows, {place: Verdict("pending", "not there")}, 0.0)
    assert progress.waits[place].reason


def test_what_many_waits_cost_grows_as_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    monkeypatch.setattr("qclimb.orchagent.check", lambda *row: checks.append(row))
    counts = []
    for ports in (8, 64):
        rows = {"QUEUE": {f"Ethernet{n}|{q}": {"scheduler": "S"} for n in range(ports) for q in range(8)}}
        verdicts = {("QUEUE", key, "scheduler"): Verdict("pending", "not there") for key in rows["QUEUE"]}
        checks.clear()
        Progress().learn(rows, verdicts, 0.0)
        counts.append(len(checks))
    assert counts[1] == 8 * counts[0]
