"""The daemon as a process, over a real redis that is cleared, killed and brought back."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.cli import without_password
from switchd.db import DatabaseLost
from switchd.db_redis import RedisDatabase
from switchd.rows import Rows
from tests.switchd.stand import CONFIG, STATE, Daemon, Pki, Redis, running_daemon, wait_until

QOS = ("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "WRED_PROFILE", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP")


def intent(generation: int, *queues: int, state: str = "enabled") -> SwitchIntent:
    return SwitchIntent(generation, state, tuple(QueueClass(p, 47 - 4 * p, q) for p, q in enumerate(queues)))  # type: ignore[arg-type]


def applied(server: Redis, generation: int) -> None:
    wait_until(
        lambda: server.status().get("applied_generation") == str(generation), f"generation {generation} is applied"
    )


def test_follows_rows_that_came_by_another_door(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    assert set(server.rows("QUEUE")["QUEUE"]) == {f"Ethernet{4 * n}|{q}" for n in range(4) for q in (6, 7)}
    with daemon.client() as client:
        value = client.get(path=["/qclimb/config/generation"], encoding="json_ietf")["notification"][0]["update"][0][
            "val"
        ]
    assert value == "3"


def test_a_refused_intent_changes_nothing_and_the_state_says_why(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    server.load({"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "5"}}})
    server.load(intent(4, 7, 5).to_config_db())
    wait_until(lambda: "queue 5 has PFC" in server.status().get("last_error", ""), "the refusal is told")
    assert server.status()["applied_generation"] == "3"
    assert server.status()["desired_generation"] == "4"
    before["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = "5"
    assert server.rows(*QOS) == before
    server.db(CONFIG).hdel("PORT_QOS_MAP|Ethernet0", "pfc_enable")
    applied(server, 4)
    assert "last_error" not in server.status()


def test_rows_that_make_no_intent_are_told_and_change_nothing(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    server.db(CONFIG).hset("QCLIMB_CLASS|1", "dscp", "64")
    wait_until(lambda: "dscp is" in server.status().get("last_error", ""), "the error names the row")
    assert server.rows(*QOS) == before


def test_config_qos_clear_is_repaired(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6, 5).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    at = server.status()["applied_at"]
    server.drop(*QOS)
    wait_until(lambda: server.rows(*QOS) == before, "all rows are back")
    wait_until(lambda: server.status()["applied_at"] != at, "the state tells when")


def test_config_qos_reload_gives_new_references_to_give_back(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    server.load(
        {
            "DSCP_TO_TC_MAP": {"AZURE": {str(d): "1" for d in range(64)}},
            "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE"}},
        }
    )
    wait_until(
        lambda: server.rows("PORT_QOS_MAP")["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"].startswith("QCLIMB_"),
        "our map is asserted again",
    )
    server.load(intent(4, 7, 6, state="disabled").to_config_db())
    applied(server, 4)
    assert server.rows("PORT_QOS_MAP", "QUEUE", "QCLIMB_PREVIOUS") == {
        "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE"}},
        "QUEUE": {},
        "QCLIMB_PREVIOUS": {},
    }


def test_redis_dies_and_comes_back_and_what_it_lost_is_asserted_again(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    server.kill()
    wait_until(lambda: "lost" in daemon.log.read_text(), "the daemon notices")
    server.start()
    server.db(STATE).flushdb()
    server.drop("QUEUE", "SCHEDULER")
    wait_until(lambda: server.rows(*QOS) == before, "all rows are back")
    applied(server, 3)
    assert daemon.process.poll() is None


def test_a_redis_that_is_half_loaded_is_not_acted_on(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    config = server.db(CONFIG)
    with config.pipeline() as pipe:  # as config reload does: the mark goes first
        pipe.delete("CONFIG_DB_INITIALIZED")
        pipe.delete("QCLIMB|global", "QCLIMB_CLASS|0", "QCLIMB_CLASS|1")
        pipe.execute()
    wait_until(lambda: "not initialised" in daemon.log.read_text(), "the daemon waits")
    assert server.rows(*QOS) == before
    server.load(intent(4, 7, 6).to_config_db())
    applied(server, 4)


def test_a_reload_that_begins_while_rows_are_read_is_not_acted_on(server: Redis) -> None:
    class Reloading(RedisDatabase):
        begins = False

        def get_tables(self, tables: Iterable[str]) -> Rows:
            if self.begins:
                self._config.delete("CONFIG_DB_INITIALIZED")
                self._config.delete("QCLIMB|global", "QCLIMB_CLASS|0", "QCLIMB_CLASS|1")
            return super().get_tables(tables)

    server.load(intent(3, 7, 6).to_config_db())
    db = Reloading(server.url)
    switch = Switch(db)
    assert switch.follow()
    before = server.rows(*QOS)
    db.begins = True
    for act in (switch.follow, switch.intent_now, lambda: switch.commit(None)):
        server.load(intent(3, 7, 6).to_config_db())
        with pytest.raises(DatabaseLost, match="not initialised"):
            act()
        assert server.rows(*QOS) == before
    db.close()


def test_a_restarted_daemon_keeps_generation_and_time(server: Redis, pki: Pki, tmp_path: Path) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    log = tmp_path / "log"
    with running_daemon(server.url, pki, log):
        applied(server, 3)
    before, rows = server.status(), server.rows(*QOS)
    with running_daemon(server.url, pki, log):
        wait_until(lambda: log.read_text().count("following") == 2, "the second daemon follows")
    assert (server.status(), server.rows(*QOS)) == (before, rows)


def test_starts_before_redis_does(server: Redis, pki: Pki, tmp_path: Path) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    server.kill()
    with running_daemon(server.url, pki, tmp_path / "log"):
        server.start()
        applied(server, 3)


def test_sigterm_ends_it_cleanly(daemon: Daemon) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(120) == 0
    assert daemon.log.read_text().rstrip().endswith("stopped")


def test_bad_flags_end_with_2_and_one_sentence() -> None:
    for flags, words in (
        ([], "nothing to serve"),
        (["--listen", "127.0.0.1:1"], "--listen needs --tls-cert, --tls-key, --tls-ca"),
        (["--listen", "here"], "no ADDR:PORT"),
        (["--plain-loopback", "192.0.2.1:9339"], "no loopback address"),
        (["--plain-loopback", "127.0.0.1:0", "--redis", "/x"], "expected unix:///PATH"),
        (["--plain-loopback", "127.0.0.1:0", "--redis", "redis://127.0.0.1:x"], "expected unix:///PATH"),
        (["--plain-loopback", "127.0.0.1:0", "--redis", "unix:///"], "expected unix:///PATH"),
        (["--plain-loopback", "127.0.0.1:0", "--backend", "swsscommon"], "swsscommon is not installed"),
        (["--redsi", "x"], "No such option"),
    ):
        found = subprocess.run(
            [sys.executable, "-m", "switchd.cli", *flags], capture_output=True, text=True, timeout=300
        )
        assert found.returncode == 2, (flags, found)
        assert words in found.stderr, (flags, found.stderr)
        assert "Traceback" not in found.stderr


def test_files_and_addresses_that_make_no_server_are_named(pki: Pki, tmp_path: Path) -> None:
    (tmp_path / "garbage").write_text("no PEM")
    good = {"cert": pki.file("switch", "pem"), "key": pki.file("switch", "key"), "ca": pki.file("ca", "pem")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = f"127.0.0.1:{taken.getsockname()[1]}"
        for listen, changed, words in (
            ("127.0.0.1:0", {"cert": str(tmp_path / "garbage")}, "garbage: holds no certificate"),
            ("127.0.0.1:0", {"ca": str(tmp_path / "garbage")}, "garbage: holds no certificate"),
            ("127.0.0.1:0", {"key": pki.file("viewer", "key")}, "viewer.key: belongs to another certificate"),
            (busy, {}, f"can't listen at {busy}: Address already in use"),
        ):
            flags = [word for kind, path in {**good, **changed}.items() for word in (f"--tls-{kind}", path)]
            command = [sys.executable, "-m", "switchd.cli", "--listen", listen, *flags]
            found = subprocess.run(command, capture_output=True, text=True, timeout=300)
            assert found.returncode == 2, (words, found)
            assert words in found.stderr, (words, found.stderr)
            assert "Traceback" not in found.stderr


def test_the_log_keeps_no_password_of_redis() -> None:
    assert without_password("redis://:sekret@127.0.0.1:6379/4") == "redis://***@127.0.0.1:6379/4"
    assert without_password("redis://user:a:b@127.0.0.1") == "redis://***@127.0.0.1"
    assert without_password("unix://:sekret@/run/redis.sock") == "unix://***@/run/redis.sock"
    assert without_password("redis://:a@b@127.0.0.1") == "redis://***@127.0.0.1"
    assert without_password("unix:///run/redis.sock") == "unix:///run/redis.sock"
