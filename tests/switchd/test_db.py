"""One set of tests over both backends; swsscommon's run where it can be imported."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from qclimb.errors import QclimbError
from qclimb.gnmi_ext import Commit
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.backend import open_database
from switchd.daemon import run
from switchd.db import Database, DatabaseLost, Event, NotHolder
from switchd.db_redis import RedisDatabase
from switchd.patchers import PATCH_S, patchers
from switchd.rows import Delete, Drop, Merge, Put
from tests.switchd.stand import APPL, CONFIG, COUNTERS, PLATFORM, STATE, Redis, point_swsscommon_at, wait_until


@pytest.fixture(params=["redis", "swsscommon"])
def db(request: pytest.FixtureRequest, server: Redis) -> Iterator[Database]:
    if request.param == "swsscommon":
        point_swsscommon_at(server)
    found = open_database(request.param, server.url)
    yield found
    found.close()


def test_changes_apply_in_order(db: Database) -> None:
    db.write(
        [
            Put("T", "a", {"x": "1", "y": "2"}),
            Merge("T", "a", {"y": "3", "z": "4"}),
            Drop("T", "a", ("x",)),
            Put("T", "b|c", {"list@": "1,2"}),
            Put("T", "gone", {"x": "1"}),
            Delete("T", "gone"),
            Put("T", "empty", {}),
        ]
    )
    assert db.get_table("T") == {"a": {"y": "3", "z": "4"}, "b|c": {"list@": "1,2"}, "empty": {"NULL": "NULL"}}
    assert db.get_entry("T", "b|c") == {"list@": "1,2"}
    assert db.get_entry("T", "nowhere") == {}


def test_one_word_methods_do_what_the_changes_do(db: Database) -> None:
    db.set_entry("T", "a", {"x": "1", "y": "2"})
    db.mod_entry("T", "a", {"z": "3"})
    db.delete_fields("T", "a", ["x"])
    assert db.get_entry("T", "a") == {"y": "2", "z": "3"}
    db.delete("T", "a")
    assert db.get_table("T") == {}


def test_a_table_is_not_mistaken_for_one_whose_name_begins_alike(db: Database) -> None:
    db.set_entry("QUEUE", "Ethernet0|1", {"x": "1"})
    db.set_entry("QUEUE_2", "Ethernet0|1", {"x": "2"})
    assert db.get_table("QUEUE") == {"Ethernet0|1": {"x": "1"}}


def test_our_connections_are_no_patch_and_one_that_looked_and_wrote_is(db: Database, server: Redis) -> None:
    with db.watch(["T"]) as watch:
        watch.poll(0)
        db.set_entry("T", "a", {"x": "1"})
        assert patchers(db.client_list(), PATCH_S) == []
        somebody = server.db(CONFIG)
        number = str(somebody.client_id())
        somebody.get("CONFIG_DB_INITIALIZED")
        assert patchers(db.client_list(), PATCH_S) == [number]
        somebody.hset("T|a", "x", "2")
        assert patchers(db.client_list(), PATCH_S) == [number]
        somebody.hgetall("T|a")
        assert patchers(db.client_list(), PATCH_S) == []


def test_only_a_whole_configuration_is_read_as_one(db: Database, server: Redis) -> None:
    db.set_entry("T", "a", {"x": "1"})
    assert db.get_whole_tables(("T", "U")) == {"T": {"a": {"x": "1"}}, "U": {}}
    server.db(CONFIG).delete("CONFIG_DB_INITIALIZED")
    with pytest.raises(DatabaseLost, match="not initialised"):
        db.get_whole_tables(("T", "U"))
    assert db.get_tables(("T",)) == {"T": {"a": {"x": "1"}}}


def next_events(watch: object, count: int) -> list[Event]:
    events: list[Event] = []
    end = time.monotonic() + 120
    while len(events) < count and time.monotonic() < end:
        events += watch.poll(0.2)  # type: ignore[attr-defined]
    return events


@contextmanager
def in_pieces(server: Redis) -> Iterator[str]:
    """The address of this redis where all that it says arrives a few bytes at a time."""
    socket_file = str(server.directory / "pieces.sock")

    def carried(inward: socket.socket, outward: socket.socket, most: int, pause_s: float) -> None:
        with suppress(OSError):
            while data := inward.recv(most):
                outward.sendall(data)
                time.sleep(pause_s)

    def accepted(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, far = listening.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(str(server.socket))
                for args in ((near, far, 4096, 0.0), (far, near, 60, 0.002)):
                    threading.Thread(target=carried, args=args, daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(socket_file)
        listening.listen()
        threading.Thread(target=accepted, args=(listening,), daemon=True).start()
        yield f"unix://{socket_file}"


def test_a_notification_that_comes_in_pieces_is_heard_whole(server: Redis) -> None:
    with in_pieces(server) as url:
        db = RedisDatabase(url)
        with db.watch(["T"]) as watch:
            watch.poll(0)
            for n in range(30):
                server.db(CONFIG).hset(f"T|{n}", "x", "1")
            assert {one.key for one in next_events(watch, 30)} == {str(n) for n in range(30)}
        db.close()


def test_watch_gives_rows_first_and_then_changes(db: Database) -> None:
    db.set_entry("T", "a", {"x": "1"})
    with db.watch(["T", "U"]) as watch:
        assert watch.poll(0) == [Event("T", "a", {"x": "1"})]
        db.mod_entry("U", "k|2", {"y": "2"})
        assert next_events(watch, 1) == [Event("U", "k|2", {"y": "2"})]
        db.delete("T", "a")
        assert next_events(watch, 1) == [Event("T", "a", None)]
        db.set_entry("V", "other", {"y": "2"})
        assert watch.poll(0.1) == []


def test_a_watch_says_so_when_redis_goes_away(db: Database, server: Redis) -> None:
    with db.watch(["T"]) as watch:
        watch.poll(0)
        server.kill()
        with pytest.raises(DatabaseLost):
            for _ in range(50):
                watch.poll(0.1)
    with pytest.raises(DatabaseLost, match="redis"):
        db.get_table("T")


def test_a_backend_heals_after_redis_was_away(db: Database, server: Redis) -> None:
    db.set_entry("T", "a", {"x": "1"})
    server.kill()
    for _ in range(2):
        with pytest.raises(DatabaseLost, match="redis"):
            db.get_table("T")
    with pytest.raises(DatabaseLost, match="redis"), db.watch(["T"]):
        pass
    server.start()
    assert db.get_table("T") == {"a": {"x": "1"}}
    db.set_state("S", "k", {"a": "1"})
    with db.watch(["T"]) as watch:
        assert watch.poll(0) == [Event("T", "a", {"x": "1"})]
        db.mod_entry("T", "a", {"y": "2"})
        assert next_events(watch, 1) == [Event("T", "a", {"x": "1", "y": "2"})]


def test_a_daemon_over_either_backend_follows_on_after_redis_was_away(db: Database, server: Redis) -> None:
    server.load(SwitchIntent(3, "enabled", (QueueClass(0, 47, 7),)).to_config_db())
    switch, stop = Switch(db), threading.Event()
    loop = threading.Thread(target=run, args=(switch, db, stop))
    loop.start()
    try:
        wait_until(lambda: server.status().get("applied_generation") == "3", "generation 3 is applied")
        server.kill()
        wait_until(lambda: "redis" in switch.snapshot.status.last_error, "the daemon notices")
        assert switch.snapshot.status.outcome == "applied"
        server.start()
        wait_until(lambda: not switch.snapshot.status.last_error, "the daemon is back")
        server.load(SwitchIntent(4, "enabled", (QueueClass(0, 47, 6),)).to_config_db())
        wait_until(lambda: server.status().get("applied_generation") == "4", "generation 4 is applied")
        assert "scheduler" in server.rows("QUEUE")["QUEUE"]["Ethernet0|6"]
    finally:
        stop.set()
        loop.join(120)


def test_a_row_is_replaced_without_being_deleted(db: Database, server: Redis) -> None:
    """orchagent parks the deletion of a row that is referenced, and what is written after it waits for ever."""
    db.set_entry("T", "a", {"x": "1", "y": "2"})
    listener = server.db(CONFIG).pubsub()
    listener.psubscribe(f"__keyspace@{CONFIG}__:T|a")
    assert listener.get_message(timeout=120)["type"] == "psubscribe"
    db.set_entry("T", "a", {"y": "3", "z": "4"})
    seen = []
    while message := listener.get_message(timeout=0.5):
        seen.append(message["data"])
    assert seen == ["hset", "hdel"]
    assert db.get_entry("T", "a") == {"y": "3", "z": "4"}


def test_rows_of_odd_types_and_bytes_are_passed_over(db: Database, server: Redis) -> None:
    server.db(CONFIG).set("T|text", "no hash")
    server.db(CONFIG).hset("T|odd", mapping={b"\xff": 'a"b\n'})
    assert db.get_table("T") == {"odd": {"\udcff": 'a"b\n'}}


def test_keys_and_hashes_are_read_in_steps(db: Database, server: Redis) -> None:
    keys = [f"COUNTERS:{n}" for n in range(450)]
    for n, key in enumerate(keys):
        server.db(COUNTERS).hset(key, "n", str(n))
    assert sorted(db.scan(COUNTERS, "COUNTERS:*")) == sorted(keys)
    assert [row["n"] for row in db.many_counters(keys)] == [str(n) for n in range(450)]


def test_only_the_holder_of_the_lock_writes(db: Database, server: Redis) -> None:
    assert db.hold("a", 60_000) == "a"
    assert db.hold("b", 60_000) == "a"
    db.write([Put("T", "k", {"x": "1"})], "a")
    with pytest.raises(NotHolder, match="another switchd writes here: a"):
        db.write([Put("T", "k", {"x": "2"})], "b")
    db.release("b")
    assert db.hold("a", 60_000) == "a"
    db.release("a")
    with pytest.raises(NotHolder, match="nobody"):
        db.write([Put("T", "k", {"x": "2"})], "a")
    assert db.hold("b", 1) == "b"
    wait_until(lambda: not server.db(STATE).exists("QCLIMB_HOLDER"), "the lock expires")
    assert db.get_table("T") == {"k": {"x": "1"}}


def test_a_pending_commit_and_whose_it_is_outlive_the_daemon(db: Database, server: Redis) -> None:
    server.load(PLATFORM)
    first, later = (SwitchIntent(n, "enabled", (QueueClass(0, 47, 7 - n),)) for n in (1, 2))
    one = Switch(db)
    one.edit(lambda _: first)
    one.edit(lambda _: later, Commit("one", "commit", 600), "orchestrator at 198.18.0.1")
    one.leave()
    another = Switch(db)
    another.follow()
    row = server.db(STATE).hgetall("QCLIMB_STATUS|global")
    told = [row[name] for name in ("commit", "commit_status", "commit_client", "desired_generation")]
    assert told == ["one", "pending", "orchestrator at 198.18.0.1", "2"]
    another.settle(Commit("one", "cancel"))
    row = server.db(STATE).hgetall("QCLIMB_STATUS|global")
    assert [row[name] for name in ("commit_status", "commit_client", "desired_generation")] == [
        "cancelled",
        told[2],
        "1",
    ]
    assert not db.get_table("QCLIMB_COMMIT")


def test_state_rows_are_replaced_whole(db: Database) -> None:
    db.set_state("S", "k", {"a": "1", "b": "2"})
    db.set_state("S", "k", {"b": "3"})
    assert db.get_state("S") == {"k": {"b": "3"}}
    db.delete_state("S", "k")
    assert db.get_state("S") == {}


def test_producing_speaks_producer_state_tables_protocol(db: Database, server: Redis) -> None:
    appl = server.db(APPL)
    listener = appl.pubsub()
    listener.subscribe(f"X_TABLE_CHANNEL@{APPL}")
    assert listener.get_message(timeout=120)["type"] == "subscribe"
    db.produce("X_TABLE", "k", {"f": "v"})
    db.produce("X_TABLE", "k", {"g": "w"})
    assert appl.smembers("X_TABLE_KEY_SET") == {"k"}
    assert appl.hgetall("_X_TABLE:k") == {"f": "v", "g": "w"}
    assert listener.get_message(timeout=120)["data"] == "G"
    assert listener.get_message(timeout=0.2) is None  # the second set added no key
    db.produce_delete("X_TABLE", "k")
    assert appl.smembers("X_TABLE_DEL_SET") == {"k"}
    assert not appl.exists("_X_TABLE:k")
    assert not appl.exists("X_TABLE:k")  # only the consumer writes it


def test_counters_are_read_by_their_whole_key(db: Database, server: Redis) -> None:
    counters = server.db(COUNTERS)
    counters.hset("COUNTERS:oid:0x15", mapping={"SAI_QUEUE_STAT_PACKETS": "12"})
    assert db.counters("COUNTERS:oid:0x15") == {"SAI_QUEUE_STAT_PACKETS": "12"}
    assert db.many_counters(["nothing", "COUNTERS:oid:0x15"]) == [{}, {"SAI_QUEUE_STAT_PACKETS": "12"}]


def test_an_asic_that_sonics_library_does_not_know_is_one_sentence(server: Redis) -> None:
    point_swsscommon_at(server)
    with pytest.raises(QclimbError, match="no namespace 'asic7', expected one of none"):
        open_database("swsscommon", "", "asic7")
