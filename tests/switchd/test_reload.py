"""CONFIG_DB is emptied and loaded beside us, and services begin in any order: SONiC's `config reload`, `config load`,
reboots. What is done to redis are the steps of sonic-utilities 691b1bbc4 (config/main.py), docker_image_ctl.j2 and
swss.sh of sonic-buildimage 086b03bd.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import redis
from pygnmi.client import gNMIException
from qclimb.config_db import with_digest

from switchd.apply import Switch
from switchd.db import DatabaseLost
from switchd.db_redis import RedisDatabase
from switchd.rows import Rows
from tests.switchd.stand import (
    APPL,
    ASIC,
    CONFIG,
    COUNTERS,
    PLATFORM,
    STATE,
    Daemon,
    Pki,
    Redis,
    running_daemon,
    wait_until,
)
from tests.switchd.test_histories import azure
from tests.switchd.test_seen import intent, queue_in_asic, running_orchagent, seen

PORTS = tuple(PLATFORM["PORT"])
BOX: Rows = PLATFORM | azure(PORTS)
QOS = ("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "QCLIMB_PREVIOUS")
OURS = ("QCLIMB", "QCLIMB_CLASS", "QCLIMB_PREVIOUS")
MARK = "CONFIG_DB_INITIALIZED"


def saved(server: Redis) -> Rows:
    """`config save`."""
    tables = {key.partition("|")[0] for key in server.db(CONFIG).keys("*|*")}
    return server.rows(*sorted(tables))


def load(server: Redis, rows: Rows) -> None:
    """`config load`: `sonic-cfggen --write-to-db` writes all rows in one MULTI, over what is there."""
    with server.db(CONFIG).pipeline() as pipe:
        for table, entries in rows.items():
            for key, row in entries.items():
                pipe.hset(f"{table}|{key}", mapping=row)
        pipe.execute()


def flush(server: Redis) -> None:
    """FLUSHDB takes the mark with it, and redis tells nobody of the keys."""
    server.db(CONFIG).flushdb()


def want(server: Redis, generation: int, *queues: int) -> None:
    """Another intent, by SONiC's door."""
    with server.db(CONFIG).pipeline() as pipe:
        pipe.delete("QCLIMB|global", *server.db(CONFIG).keys("QCLIMB_CLASS|*"))
        for table, entries in with_digest(intent(generation, *queues).to_config_db()).items():
            for key, row in entries.items():
                pipe.hset(f"{table}|{key}", mapping=row)
        pipe.execute()
    seen(server, generation)


class Writes:
    """What our scripts write into CONFIG_DB while its mark is not there (MONITOR)."""

    def __init__(self, server: Redis) -> None:
        self._server, self._lines = server, list[str]()
        self._is_whole = True

    def listen(self, monitor: "redis.client.Monitor") -> None:
        try:
            for told in monitor.listen():
                words = str(told["command"]).split()
                name, key = words[0].upper(), words[1] if len(words) > 1 else ""
                if told["db"] != CONFIG:
                    continue
                if name == "FLUSHDB" or (name, key) == ("SET", MARK):
                    self._is_whole = name == "SET" and words[2] == "1"
                elif told["client_type"] == "lua" and name in ("HSET", "HDEL", "DEL") and not self._is_whole:
                    self._lines.append(str(told["command"]))
        except redis.ConnectionError:
            return

    @contextmanager
    def none_in_a_half_loaded_database(self) -> Iterator[None]:
        monitor = self._server.db(CONFIG).monitor()  # type: ignore[no-untyped-call]
        with monitor:
            thread = threading.Thread(target=self.listen, args=(monitor,), daemon=True)
            thread.start()
            yield
        assert not self._lines


@pytest.fixture
def box(server: Redis, pki: Pki, tmp_path: Path) -> Iterator[Daemon]:
    """A switch with an intent."""
    load(server, BOX)
    with running_orchagent(server), running_daemon(server.url, pki, tmp_path / "log") as daemon:
        want(server, 3, 7, 5)
        yield daemon


def is_right(server: Redis, *queues: int) -> bool:
    return all([queue_in_asic(server, port, 47 - 4 * n) for n in range(len(queues))] == [*queues] for port in PORTS)


def all_is_given_back(server: Redis) -> None:
    server.load(with_digest(intent(9, 7, 5, state="disabled").to_config_db()))
    before = {table: BOX.get(table, {}) for table in QOS}
    wait_until(lambda: server.rows(*QOS) == before, "all is as it was before us")


@pytest.mark.parametrize("steps", [1, 2], ids=["one write", "system information first"])
def test_after_a_reload_the_saved_intent_stands(server: Redis, box: Daemon, steps: int) -> None:
    before, effect = saved(server), server.effect(*QOS, *OURS)
    want(server, 4, 7, 2, 1)
    with Writes(server).none_in_a_half_loaded_database():
        flush(server)
        if steps == 2:  # `-l`: what sonic-cfggen -H makes, some seconds before the rest
            load(server, {"DEVICE_METADATA": before["DEVICE_METADATA"], "PORT": before["PORT"]})
            wait_until(lambda: "not initialised" in box.log.read_text(), "the daemon waits")
        load(server, before)
        server.db(CONFIG).set(MARK, "1")
        seen(server, 3)
        wait_until(lambda: server.effect(*QOS, *OURS) == effect, "the saved rows stand, and no others of ours")
    assert is_right(server, 7, 5) and box.process.poll() is None
    all_is_given_back(server)


def test_a_reload_of_a_configuration_without_an_intent_leaves_nothing_of_ours(server: Redis, box: Daemon) -> None:
    flush(server)
    load(server, BOX)
    server.db(CONFIG).set(MARK, "1")
    wait_until(lambda: "desired_generation" not in server.status(), "there is no intent")
    assert server.rows(*QOS) == {table: BOX.get(table, {}) for table in QOS}


def test_config_load_lays_a_saved_intent_over_another_and_what_is_left_of_that_is_named(
    server: Redis, box: Daemon
) -> None:
    """It takes no row away: two intents are mixed, and their digest says so."""
    before = saved(server)
    want(server, 4, 7, 2, 1)
    load(server, before)
    wait_until(lambda: "waiting for a whole intent" in server.status().get("last_error", ""), "the mixture is named")
    server.db(CONFIG).delete("QCLIMB_CLASS|2")
    seen(server, 3)
    wait_until(lambda: is_right(server, 7, 5), "the saved intent stands")
    all_is_given_back(server)


def test_an_emptied_database_takes_nothing_away_and_turns_no_client_away(server: Redis, box: Daemon) -> None:
    """`sonic-db-cli CONFIG_DB flushdb`: the switch keeps what it has, and clients are asked to come again."""
    before, objects = saved(server), sorted(server.db(ASIC).keys("*"))
    with Writes(server).none_in_a_half_loaded_database(), box.client() as client:
        assert client.capabilities()["supported_models"]
        flush(server)
        for act in (lambda: client.get(path=["/qclimb/config"]), lambda: client.set(delete=["/qclimb/config"])):
            with pytest.raises(gNMIException, match="CONFIG_DB is not initialised yet"):
                act()
        load(server, {"PORT": before["PORT"]})
        wait_until(lambda: "not initialised" in box.log.read_text(), "the daemon waits")
        assert "gnmi" not in server.status() and sorted(server.db(ASIC).keys("*")) == objects
        load(server, before)
        server.db(CONFIG).set(MARK, "1")
        wait_until(lambda: "following redis=ok" in box.log.read_text().partition("not initialised")[2], "it goes on")
        assert client.get(path=["/qclimb/config/generation"], encoding="json_ietf")["notification"]
    seen(server, 3)
    assert saved(server) == before


def test_an_emptied_database_is_noticed_by_the_next_beat_though_nobody_tells_of_it(server: Redis) -> None:
    db = RedisDatabase(server.url)
    switch = Switch(db)
    with db.watch(["PORT"]) as watch:
        watch.poll(0)
        switch.beat()
        flush(server)
        assert watch.poll(0.2) == []
        with pytest.raises(DatabaseLost, match="not initialised"):
            switch.beat()
        server.db(CONFIG).set(MARK, "1")
        switch.beat()
    db.close()


class Boot:
    """The services of a switch that begins anew, cold or warm, in any order. `rows`: config_db.json."""

    def __init__(self, server: Redis, pki: Pki, log: Path, rows: Rows, is_warm: bool) -> None:
        self._server, self._pki, self._log, self._rows, self._is_warm = server, pki, log, rows, is_warm
        self._stack = ExitStack()

    def database(self) -> None:
        """docker_image_ctl.j2: what was saved is loaded, then migrated under the mark 0, then whole."""
        self._server.start()
        config = self._server.db(CONFIG)
        if not self._is_warm:
            config.flushall()
            load(self._server, self._rows)
        config.set(MARK, "0")
        config.hset("VERSIONS|DATABASE", "VERSION", "version_202605_01")
        config.set(MARK, "1")

    def orchagent(self) -> None:
        """swss.sh: a cold start empties what orchagent fills, a warm one does not."""
        state = self._server.db(STATE)
        for number in () if self._is_warm else (APPL, ASIC, COUNTERS):
            self._server.db(number).flushdb()
        if self._is_warm:
            state.hset("WARM_RESTART_TABLE|orchagent", "state", "initialized")
        self._stack.enter_context(running_orchagent(self._server))
        if self._is_warm:
            state.hset("WARM_RESTART_TABLE|orchagent", "state", "reconciled")

    def switchd(self) -> None:
        self._stack.enter_context(running_daemon(self._server.url, self._pki, self._log))

    def close(self) -> None:
        self._stack.close()


@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize(
    "has_rows",
    [
        pytest.param(True, id="all was saved", marks=pytest.mark.system),
        pytest.param(False, id="the intent alone was saved"),
    ],
)
@pytest.mark.parametrize("place_of_switchd", [0, 1, 2], ids=["switchd first", "before swss", "after swss"])
def test_after_a_reboot_in_any_order_the_saved_intent_stands(
    server: Redis, pki: Pki, tmp_path: Path, place_of_switchd: int, has_rows: bool, is_warm: bool
) -> None:
    load(server, BOX)
    server.db(CONFIG).set(MARK, "1")
    with running_orchagent(server), running_daemon(server.url, pki, tmp_path / "log"):
        want(server, 3, 7, 5)
    rows, state = saved(server) if has_rows else BOX | intent(3, 7, 5).to_config_db(), server.db(STATE)
    if is_warm:  # scripts/fast-reboot: no states, and of STATE_DB only what it lists is kept
        flush(server)
        load(server, rows)
        state.delete(*state.keys("QCLIMB_*"))
        state.hdel("WARM_RESTART_TABLE|qclimb-switchd", "state")
        state.hset("WARM_RESTART_ENABLE_TABLE|system", "enable", "true")
    server.kill()
    boot, order = Boot(server, pki, tmp_path / "log", rows, is_warm), ["database", "orchagent"]
    order.insert(place_of_switchd, "switchd")
    try:
        for service in order:
            getattr(boot, service)()
        seen(server, 3)
        assert is_right(server, 7, 5)
        if is_warm:
            row = "WARM_RESTART_TABLE|qclimb-switchd"
            wait_until(lambda: state.hget(row, "state") == "reconciled", "SONiC's finalizer is told")
        all_is_given_back(server)
    finally:
        boot.close()
