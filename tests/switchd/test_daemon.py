"""The daemon as a process, over a real redis that is cleared, killed and brought back."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import create_autospec

import click
import pytest
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.cli import gone, without_password
from switchd.db import DatabaseLost, NotHolder, RowsChanged
from switchd.db_redis import RedisDatabase
from switchd.rows import Put, Rows
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
    server.load({"PORT_QOS_MAP": {f"Ethernet{4 * n}": {"pfc_enable": "5"} for n in range(4)}})
    server.load(intent(4, 7, 5).to_config_db())
    wait_until(lambda: "queue 5 has PFC" in server.status().get("last_error", ""), "the refusal is told")
    assert server.status()["applied_generation"] == "3"
    assert server.status()["desired_generation"] == "4"
    first, second = (server.db(STATE).hgetall(f"QCLIMB_CLASS_STATE|{p}") for p in (0, 1))
    assert (first["status"], first["queue"]) == ("applied", "7")  # wanted as it is
    assert (second["status"], second["queue"], "queue 5 has PFC" in second["reason"]) == ("failed", "6", True)
    for row in before["PORT_QOS_MAP"].values():
        row["pfc_enable"] = "5"
    assert server.rows(*QOS) == before
    for n in range(4):
        server.db(CONFIG).hdel(f"PORT_QOS_MAP|Ethernet{4 * n}", "pfc_enable")
    applied(server, 4)
    assert "last_error" not in server.status()
    assert "reason" not in server.db(STATE).hgetall("QCLIMB_CLASS_STATE|1")


def port_states(server: Redis) -> dict[str, dict[str, str]]:
    state = server.db(STATE)
    return {key.partition("|")[2]: state.hgetall(key) for key in state.keys("QCLIMB_PORT_STATE|*")}


def test_a_port_that_refuses_is_shown_and_the_others_are_served(server: Redis, daemon: Daemon) -> None:
    server.load({"PORT_QOS_MAP": {"Ethernet4": {"pfc_enable": "6"}}, "QUEUE": {"Ethernet8|x": {"scheduler": "s"}}})
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    assert "last_error" not in server.status()
    found = port_states(server)
    assert found["Ethernet0"] == found["Ethernet12"] == {"status": "written, not verified"}
    assert found["Ethernet4"] == {
        "status": "refused",
        "reason": "Ethernet4: queue 6 has PFC (lossless), it can't be granted to a class",
    }
    assert "QUEUE|Ethernet8|x is no key" in found["Ethernet8"]["reason"]
    assert set(server.rows("PORT_QOS_MAP")["PORT_QOS_MAP"]) == {"Ethernet0", "Ethernet4", "Ethernet12"}
    server.db(CONFIG).delete("PORT|Ethernet12", "QUEUE|Ethernet8|x")
    wait_until(lambda: set(port_states(server)) == {"Ethernet0", "Ethernet4", "Ethernet8"}, "one port went")
    wait_until(lambda: "reason" not in port_states(server)["Ethernet8"], "another is mended")
    assert not any(key.startswith("Ethernet12") for rows in server.rows(*QOS).values() for key in rows)


def test_two_daemons_take_turns(server: Redis, pki: Pki, tmp_path: Path) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    with running_daemon(server.url, pki, tmp_path / "first"):
        applied(server, 3)
        with running_daemon(server.url, pki, tmp_path / "second"):
            wait_until(lambda: "another switchd writes here" in (tmp_path / "second").read_text(), "the second says so")
            server.load(intent(4, 7, 5).to_config_db())
            applied(server, 4)
            assert "applied" not in (tmp_path / "second").read_text()
    assert not server.db(STATE).exists("QCLIMB_HOLDER")


def test_the_second_goes_on_where_the_first_was_killed(server: Redis, pki: Pki, tmp_path: Path) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    with (
        running_daemon(server.url, pki, tmp_path / "first") as first,
        running_daemon(server.url, pki, tmp_path / "second") as second,
    ):
        waits, holds = [(tmp_path / "first", second), (tmp_path / "second", first)], "another switchd writes here"
        wait_until(lambda: any(holds in log.read_text() for log, _ in waits), "one waits")
        applied(server, 3)
        next(holder for log, holder in waits if holds in log.read_text()).process.kill()
        server.load(intent(4, 7, 5).to_config_db())
        applied(server, 4)
    effect = server.effect("PORT_QOS_MAP", "QUEUE", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "SCHEDULER")
    assert {key.partition("|")[2] for key in effect["QUEUE"]} == {"7", "5"}
    assert len(effect["DSCP_TO_TC_MAP"]) == 1


def test_a_daemon_that_slept_through_its_lock_writes_nothing(server: Redis) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    db, other = RedisDatabase(server.url), RedisDatabase(server.url)
    sleeper, waker = Switch(db), Switch(other)
    assert sleeper.follow()
    with pytest.raises(NotHolder, match="another switchd writes here"):
        waker.follow()
    server.db(STATE).delete("QCLIMB_HOLDER")  # it expired
    waker.follow()
    with pytest.raises(NotHolder, match="nothing was written"):
        db.write([Put("QUEUE", "Ethernet0|0", {"scheduler": "x"})], sleeper._holder.name)
    with pytest.raises(NotHolder):
        sleeper.edit(lambda _: None)
    assert "Ethernet0|0" not in server.rows("QUEUE")["QUEUE"]
    db.close(), other.close()


def test_status_rows_come_back_after_state_db_was_flushed(server: Redis, daemon: Daemon) -> None:
    server.load({"PORT_QOS_MAP": {"Ethernet4": {"pfc_enable": "6"}}, **intent(3, 7, 6).to_config_db()})
    applied(server, 3)
    before = {key: server.db(STATE).hgetall(key) for key in server.db(STATE).keys("QCLIMB_*STAT*")}
    server.db(STATE).flushdb()
    wait_until(lambda: set(server.db(STATE).keys("QCLIMB_*STAT*")) == set(before), "all rows are back")
    for key, row in before.items():
        assert server.db(STATE).hgetall(key).items() >= {f: v for f, v in row.items() if f != "heartbeat"}.items()
    assert server.db(STATE).exists("QCLIMB_HOLDER")


def test_disabling_the_feature_gives_back_before_the_daemon_ends(server: Redis, pki: Pki, tmp_path: Path) -> None:
    maps = {"DSCP_TO_TC_MAP": {"AZURE": {str(d): "1" for d in range(64)}}}
    server.load({**maps, "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE", "pfc_enable": "3"}}})
    before = server.rows(*QOS)
    server.load({"FEATURE": {"qclimb": {"state": "enabled"}}, **intent(3, 7, 6).to_config_db()})
    with running_daemon(server.url, pki, tmp_path / "log"):
        applied(server, 3)
    assert server.rows(*QOS) != before  # a restart takes nothing away
    with running_daemon(server.url, pki, tmp_path / "log"):
        wait_until(lambda: (tmp_path / "log").read_text().count("following") == 2, "it follows")
        server.load({"FEATURE": {"qclimb": {"state": "disabled"}}})
    assert server.rows(*QOS) == before
    assert server.rows("QCLIMB_PREVIOUS")["QCLIMB_PREVIOUS"] == {}
    assert set(server.rows("QCLIMB_CLASS")["QCLIMB_CLASS"]) == {"0", "1"}


def test_give_back_by_hand_before_uninstalling(server: Redis, pki: Pki, tmp_path: Path) -> None:
    before = server.rows(*QOS)
    server.load(intent(3, 7, 6).to_config_db())
    command = [sys.executable, "-m", "switchd.cli", "--redis", server.url, "--backend", "redis", "--give-back"]
    with running_daemon(server.url, pki, tmp_path / "log"):
        applied(server, 3)
        found = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert found.returncode == 2 and "another switchd writes here" in found.stderr
    found = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    assert server.rows(*QOS) == before


def test_tables_of_ours_that_go_while_it_runs_do_not_take_the_memory(server: Redis, daemon: Daemon) -> None:
    """Uninstalling deletes the tables that our YANG defines, under a daemon that still runs."""
    maps = {"DSCP_TO_TC_MAP": {"ONE": {str(d): "1" for d in range(64)}, "TWO": {str(d): "2" for d in range(64)}}}
    server.load({**maps, "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "ONE"}}})
    before = server.rows(*QOS)
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    server.drop("QCLIMB_PREVIOUS")
    wait_until(lambda: "Ethernet0" in server.rows("QCLIMB_PREVIOUS")["QCLIMB_PREVIOUS"], "the memory is back")
    server.drop("QCLIMB_PREVIOUS", "QCLIMB", "QCLIMB_CLASS")
    wait_until(lambda: server.rows(*QOS) == before, "all is given back")


def test_without_certificates_qos_runs_and_the_door_opens_when_they_come(
    server: Redis, pki: Pki, tmp_path: Path
) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "switchd.cli", "--redis", server.url, "--backend", "redis"]
    with (tmp_path / "log").open("w") as stderr:
        flags = ["--listen", f"127.0.0.1:{port}", "--tls-from-config-db"]
        process = subprocess.Popen([*command, *flags], stderr=stderr)
    try:
        applied(server, 3)
        assert server.status()["gnmi"] == "closed: GNMI|certs has no server_crt, server_key, ca_crt"
        paths = {"server_crt": "no.cer", "server_key": pki.file("switch", "key"), "ca_crt": pki.file("ca", "pem")}
        server.load({"GNMI": {"certs": paths}})
        wait_until(lambda: "no.cer" in server.status().get("gnmi", ""), "the bad file is named")
        server.load({"GNMI": {"certs": {"server_crt": pki.file("switch", "pem")}}})
        wait_until(lambda: "gnmi" not in server.status(), "the door is open")
        with Daemon(process, port, pki, tmp_path / "log").client() as client:  # type: ignore[arg-type]
            assert client.capabilities()["supported_models"]
    finally:
        process.terminate()
        assert process.wait(120) == 0


def test_rows_that_make_no_intent_are_told_and_change_nothing(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6).to_config_db())
    applied(server, 3)
    before = server.rows(*QOS)
    server.db(CONFIG).hset("QCLIMB_CLASS|1", "dscp", "64")
    wait_until(lambda: "dscp is" in server.status().get("last_error", ""), "the error names the row")
    assert server.rows(*QOS) == before


def test_a_key_of_ours_that_is_no_hash_is_named_until_it_is_gone(server: Redis, daemon: Daemon) -> None:
    server.db(CONFIG).set("QUEUE|Ethernet0|7", "text")
    before = server.rows("PORT_QOS_MAP", "SCHEDULER")
    server.load(intent(3, 7, 6).to_config_db())
    told = "redis: QUEUE|Ethernet0|7 is no hash, expected a row or nothing; nothing was written"
    wait_until(lambda: told in daemon.log.read_text(), "the key is named")
    assert server.rows("PORT_QOS_MAP", "SCHEDULER") == before
    server.db(CONFIG).delete("QUEUE|Ethernet0|7")
    applied(server, 3)


def test_giving_back_while_others_write_without_a_pause_is_one_sentence() -> None:
    switch = create_autospec(Switch, instance=True)
    switch.give_back.side_effect = RowsChanged("redis: QUEUE|Ethernet0|7 changed after it was read")
    with pytest.raises(click.UsageError, match="changed after it was read"):
        gone(switch)


def test_config_qos_clear_is_repaired(server: Redis, daemon: Daemon) -> None:
    server.load(intent(3, 7, 6, 5).to_config_db())
    applied(server, 3)
    before = server.effect(*QOS)
    at = server.status()["applied_at"]
    server.drop(*QOS)
    wait_until(lambda: server.effect(*QOS) == before, "all rows are back")
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
    before = server.effect(*QOS)
    server.kill()
    wait_until(lambda: "lost" in daemon.log.read_text(), "the daemon notices")
    server.start()
    server.db(STATE).flushdb()
    server.drop("QUEUE", "SCHEDULER")
    wait_until(lambda: server.effect(*QOS) == before, "all rows are back")
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

        def get_whole_tables(self, tables: Iterable[str]) -> Rows:
            if self.begins:
                server.db(CONFIG).delete("CONFIG_DB_INITIALIZED")
                server.db(CONFIG).delete("QCLIMB|global", "QCLIMB_CLASS|0", "QCLIMB_CLASS|1")
            return super().get_whole_tables(tables)

    server.load(intent(3, 7, 6).to_config_db())
    db = Reloading(server.url)
    switch = Switch(db)
    assert switch.follow()
    before = server.rows(*QOS)
    db.begins = True
    for act in (switch.follow, lambda: switch.edit(lambda _: None)):
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
    assert server.rows(*QOS) == rows
    assert {**server.status(), "heartbeat": before["heartbeat"]} == before


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
