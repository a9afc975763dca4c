"""One set of tests over both backends; swsscommon's run only where it is installed."""

import time
from collections.abc import Iterator

import pytest

from switchd.backend import open_database
from switchd.db import Database, DatabaseLost, Event
from switchd.rows import Delete, Drop, Merge, Put
from tests.switchd.stand import APPL, CONFIG, COUNTERS, Redis


@pytest.fixture(params=["redis", "swsscommon"])
def db(request: pytest.FixtureRequest, server: Redis) -> Iterator[Database]:
    if request.param == "swsscommon":
        pytest.importorskip("swsscommon", reason="swsscommon is not installed here (it comes with SONiC)")
        pytest.skip(
            "swsscommon reads its sockets from /var/run/redis; point database_config.json at a test redis first"
        )
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


def test_ready_only_when_config_db_is_whole(db: Database, server: Redis) -> None:
    assert db.ready()
    server.db(CONFIG).delete("CONFIG_DB_INITIALIZED")
    assert not db.ready()


def next_events(watch: object, count: int) -> list[Event]:
    events: list[Event] = []
    end = time.monotonic() + 120
    while len(events) < count and time.monotonic() < end:
        events += watch.poll(0.2)  # type: ignore[attr-defined]
    return events


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
