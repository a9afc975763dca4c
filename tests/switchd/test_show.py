"""`show qclimb`: the plug-in as `show` loads it, and the same commands over a plain redis."""

import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from switchd.show import clear_qclimb, plain, qclimb_counters, qclimb_queues
from switchd.show import qclimb as plugin
from tests.switchd.stand import CONFIG, COUNTERS, STATE, Redis, running_redis


def shown(server: Redis, *words: str) -> str:
    """What the plug-in prints below a `show` that brings its Db along."""
    show = click.Group("show")
    plugin.register(show)
    result = CliRunner().invoke(show, ["qclimb", *words], obj=plain.PlainDb(server.url), catch_exceptions=False)
    return result.output


def ran(server: Redis) -> None:
    state = server.db(STATE)
    state.hset(
        "QCLIMB_STATUS|global",
        mapping={
            "applied_generation": "4",
            "desired_generation": "5",
            "admin_state": "enabled",
            "last_error": "queue 3",
        },
    )
    for priority in (0, 1, 10):
        row = {"dscp": str(47 - priority), "queue": str(7 - priority % 8), "path": "balanced", "threshold_bytes": "0"}
        state.hset(f"QCLIMB_CLASS_STATE|{priority}", mapping=row)
    counters = server.db(COUNTERS)
    for port in ("Ethernet8", "Ethernet12"):
        counters.hset("COUNTERS_QUEUE_NAME_MAP", f"{port}:7", f"oid:{port}")
        counters.hset(f"COUNTERS:oid:{port}", mapping={"SAI_QUEUE_STAT_PACKETS": "12", "SAI_QUEUE_STAT_BYTES": "900"})


def test_a_switch_where_it_never_ran_says_so_in_one_line(server: Redis) -> None:
    for word in ([], ["status"], ["ports"], ["classes"], ["paths"], ["counters"], ["queues"], ["policy"]):
        assert shown(server, *word) == plugin.NEVER_RAN + "\n"
    assert json.loads(shown(server, "status", "--json")) == {}


def test_no_bytes_of_a_database_steer_a_terminal(server: Redis) -> None:
    ran(server)
    state, evil = server.db(STATE), b"a\x1b[2J\xc2\x9b\xe2\x80\xae\xff\r\nforged"
    state.hset("QCLIMB_STATUS|global", mapping={"last_error": evil, "commit": evil, "warning": evil})
    for table in ("QCLIMB_PORT_STATE", "QCLIMB_ASIC_STATE", "QCLIMB_SPINE_STATE", "QCLIMB_PATH_STATE"):
        row = {"status": evil, "reason": evil, "frr": evil, "share": evil}
        state.hset(f"{table}|".encode() + evil, mapping=row)
    config = server.db(CONFIG)
    config.hset("QCLIMB|global", mapping={"generation": evil, "ports": evil, "admin_state": evil})
    config.hset(b"QCLIMB_PATH|" + evil, "share", evil)
    state.hset("QCLIMB_CLASS_STATE|0", mapping={"alarm": evil, "path": evil})
    for word in ("status", "ports", "asic", "classes", "paths", "frr", "counters", "queues", "policy"):
        for line in shown(server, word).split("\n"):
            assert line.isprintable(), word
            assert not line.startswith("forged") or word == "frr", word


def test_status_tells_of_a_commit_that_waits_to_be_confirmed_and_until_when(server: Redis) -> None:
    ran(server)
    assert "Commit" not in shown(server)
    told = {
        "commit": "rollout-7",
        "commit_status": "pending",
        "commit_until": "1795521600",
        "commit_client": "me at ::1",
    }
    server.db(STATE).hset("QCLIMB_STATUS|global", mapping=told)
    (line,) = [one for one in shown(server).splitlines() if one.startswith("Commit")]
    assert line.split(None, 1)[1] == (
        "rollout-7 of me at ::1 is pending: unless it is confirmed, it is undone at 2026-11-24T12:00:00Z"
    )
    assert json.loads(shown(server, "--json"))["commit_until"] == told["commit_until"]
    server.db(STATE).hdel("QCLIMB_STATUS|global", "commit_until")
    server.db(STATE).hset("QCLIMB_STATUS|global", "commit_status", "rolled-back")
    assert "rollout-7 of me at ::1 is rolled-back\n" in shown(server)


def test_status_tells_what_is_applied_and_why_not(server: Redis) -> None:
    ran(server)
    lines = dict(line.split(None, 1)[0:2] for line in shown(server, "status").splitlines() if line[:1].isalpha())
    assert "Applied" in lines
    assert "queue 3" in shown(server)
    assert json.loads(shown(server, "status", "--json"))["applied_generation"] == "4"


def test_a_dead_daemon_is_told_by_its_heartbeat(server: Redis) -> None:
    ran(server)
    assert "not running (it never told" in shown(server, "status")
    now = int(time.time())
    for age_s, word in (
        (0, "running"),
        (10, "running"),
        (300, "not running (last seen 30"),
        (-900, "not running (last"),
    ):
        server.db(STATE).hset("QCLIMB_STATUS|global", "heartbeat", str(now - age_s))
        found = json.loads(shown(server, "status", "-j"))
        assert found["daemon"].startswith(word)
        assert found["gnmi"].startswith("open" if word == "running" else "closed")


def test_ports_tell_why_they_are_left_out(server: Redis) -> None:
    ran(server)
    server.db(STATE).hset("QCLIMB_PORT_STATE|Ethernet8", mapping={"status": "refused", "reason": "queue 5 has PFC"})
    server.db(STATE).hset("QCLIMB_PORT_STATE|Ethernet12", "status", "applied")
    assert "queue 5 has PFC" in shown(server, "ports")
    assert list(json.loads(shown(server, "ports", "-j"))) == ["Ethernet8", "Ethernet12"]
    assert "1: Ethernet8" in shown(server, "status")


def test_a_redis_that_is_away_is_not_a_switch_without_qclimb(server: Redis) -> None:
    ran(server)
    server.kill()
    show = click.Group("show")
    plugin.register(show)
    for word in ([], ["status"], ["ports"], ["classes", "-j"], ["paths"], ["counters"]):
        result = CliRunner().invoke(show, ["qclimb", *word], obj=plain.PlainDb(server.url))
        assert result.exit_code == 2, word
        assert result.output.startswith("Error: redis: ") and result.output.count("\n") == 1
    server.start()


def test_classes_are_in_the_order_of_service(server: Redis) -> None:
    ran(server)
    assert list(json.loads(shown(server, "classes", "-j"))) == ["0", "1", "10"]
    assert [line.split()[:3] for line in shown(server, "classes").splitlines()[2:]] == [
        ["0", "47", "7"],
        ["1", "46", "6"],
        ["10", "37", "5"],
    ]


def test_paths_tell_each_priority_and_each_spine(server: Redis) -> None:
    ran(server)
    state, counters = server.db(STATE), server.db(COUNTERS)
    state.hset("QCLIMB_CLASS_STATE|0", mapping={"path": "s1", "status": "applied", "rules": "QCLIMB_V4:a,QCLIMB_V4:b"})
    state.hset(
        "QCLIMB_SPINE_STATE|s1", mapping={"interfaces": "Ethernet8", "next_hops": "10.0.0.1@Ethernet8", "status": "up"}
    )
    state.hset(
        "QCLIMB_PATH_STATE|s1",
        mapping={"share": "0.5", "status": "equal-cost", "reason": "weights: no", "frr": "route-map x"},
    )
    counters.hset("ACL_COUNTER_RULE_MAP", mapping={"QCLIMB_V4:a": "oid:a", "QCLIMB_V4:b": "oid:b"})
    for oid in "ab":
        counters.hset(
            f"COUNTERS:oid:{oid}", mapping={"SAI_ACL_COUNTER_ATTR_PACKETS": "2", "SAI_ACL_COUNTER_ATTR_BYTES": "100"}
        )
    told = json.loads(shown(server, "paths", "--json"))
    assert told["classes"]["0"] == {
        **{"path": "s1", "next_hops": "10.0.0.1@Ethernet8", "status": "applied", "reason": ""},
        **{"packets": 4, "bytes": 200},
    }
    assert told["classes"]["1"]["path"] == "balanced"
    assert told["classes"]["1"]["packets"] is None
    assert told["spines"]["s1"]["balanced"] == "equal-cost"
    assert "weights: no" in shown(server, "paths")
    assert shown(server, "frr") == "route-map x\n"


def test_counters_go_by_port_and_class_and_say_what_is_not_counted(server: Redis) -> None:
    ran(server)
    rows = json.loads(shown(server, "counters", "--json"))
    assert [(r["interface"], r["priority"], r["packets"]) for r in rows][:3] == [
        ("Ethernet8", 0, 12),
        ("Ethernet8", 1, None),
        ("Ethernet8", 10, None),
    ]
    assert "N/A" in shown(server, "counters", "Ethernet12")
    assert "'Ethernet99' is no port" in shown(server, "counters", "Ethernet99")


def test_counters_are_told_since_this_user_cleared_them(
    server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        qclimb_counters, "cleared_file", lambda namespace: tmp_path / "cache" / f"counters{namespace}.json"
    )
    ran(server)
    clear = click.Group("sonic-clear")
    clear_qclimb.register(clear)
    words = ["qclimb", "counters"]
    assert CliRunner().invoke(clear, words, obj=plain.PlainDb(server.url), catch_exceptions=False).exit_code == 0

    def told() -> dict[str, int]:
        row = json.loads(shown(server, "counters", "Ethernet8", "-j"))[0]
        return {name: row[name] for name in ("packets", "bytes")}

    assert told() == {"packets": 0, "bytes": 0}
    server.db(COUNTERS).hset("COUNTERS:oid:Ethernet8", "SAI_QUEUE_STAT_PACKETS", "20")
    assert told() == {"packets": 8, "bytes": 0}
    server.db(COUNTERS).hset("COUNTERS:oid:Ethernet8", "SAI_QUEUE_STAT_PACKETS", "3")
    assert told()["packets"] == 3, "the switch began anew"
    (tmp_path / "cache" / "counters.json").write_text("nonsense")
    assert told()["packets"] == 3


def test_queues_and_policy_tell_what_config_db_says(server: Redis) -> None:
    ran(server)
    server.load(
        {
            "QCLIMB": {"global": {"generation": "5", "admin_state": "enabled", "ports": "Ethernet8,Ethernet12"}},
            "QCLIMB_CLASS": {"0": {"dscp": "47", "queue": "7", "threshold_bytes": "0", "max_share": "0.5"}},
            "QUEUE": {"Ethernet8|6-7": {"scheduler": "S", "wred_profile": "W"}, "Ethernet12|7": {"scheduler": "S"}},
            "SCHEDULER": {"S": {"type": "STRICT", "pir": "1000"}},
            "WRED_PROFILE": {"W": {"green_min_threshold": "5"}},
            "BUFFER_QUEUE": {"Ethernet8|0-7": {"profile": "P"}},
            "BUFFER_PROFILE": {"P": {"dynamic_th": "-1"}},
        }
    )
    for port, status in (("Ethernet8", "applied"), ("Ethernet12", "refused")):
        server.db(STATE).hset(f"QCLIMB_PORT_STATE|{port}", "status", status)
    rows = json.loads(shown(server, "queues", "-j"))
    assert {row["interface"] for row in rows} == {"Ethernet8"}
    of = {row["queue"]: row for row in rows}
    assert (of[7]["type"], of[7]["pir"], of[7]["green_min_threshold"]) == ("STRICT", "1000", "5")
    assert (of[7]["profile"], of[7]["dynamic_th"]) == ("P", "-1")
    assert "STRICT" in shown(server, "queues", "Ethernet8")
    assert "is no port that holds the intent" in shown(server, "queues", "Ethernet12")
    policy = shown(server, "policy")
    assert "Generation 5, enabled" in policy and "Ethernet8,Ethernet12" in policy and "0.5" in policy
    assert json.loads(shown(server, "policy", "--json"))["classes"]["0"]["max_share"] == "0.5"


@pytest.fixture
def asics(server: Redis) -> Iterator[plain.PlainDb]:
    """What `show` brings along on a switch with two ASICs, which have different ports; "" has the host's databases."""
    with running_redis() as other:
        ran(server)
        other.db(STATE).hset("QCLIMB_STATUS|global", "applied_generation", "9")
        found = plain.PlainDb("unix:///none")
        found.db_clients = {"": found, "asic0": plain.PlainDb(server.url), "asic1": plain.PlainDb(other.url)}
        yield found


def called(group: Any, asics: plain.PlainDb, *words: str) -> str:
    """What a plug-in says on a switch with two ASICs."""
    root = click.Group()
    group.register(root)
    return CliRunner().invoke(root, ["qclimb", *words], obj=asics).output


def test_of_several_asics_each_is_told_or_the_one_that_is_named(asics: plain.PlainDb) -> None:
    said = called(plugin, asics, "status")
    assert said.index("For namespace asic0:") < said.index("queue 3") < said.index("For namespace asic1:")
    told = json.loads(called(plugin, asics, "-j"))
    assert {name: row["applied_generation"] for name, row in told.items()} == {"asic0": "4", "asic1": "9"}
    for words in (("-n", "asic1"), ("status", "-n", "asic1")):
        assert json.loads(called(plugin, asics, *words, "-j"))["applied_generation"] == "9"
        assert "For namespace" not in called(plugin, asics, *words)
    assert "expected one of asic0, asic1 instead of 'asic9'" in called(plugin, asics, "status", "-n", "asic9")
    assert list(json.loads(called(plugin, asics, "counters", "-j"))) == ["asic0", "asic1"]


def test_a_port_is_found_on_whichever_asic_has_it(asics: plain.PlainDb) -> None:
    assert list(json.loads(called(plugin, asics, "counters", "Ethernet8", "-j"))) == ["asic0"]
    assert "For namespace asic1" not in called(plugin, asics, "counters", "Ethernet8")
    assert "'Ethernet99' is no port" in called(plugin, asics, "counters", "Ethernet99")
    assert "'Ethernet8' is no port" in called(plugin, asics, "counters", "Ethernet8", "-n", "asic1")


def test_counters_of_each_asic_are_cleared_or_of_the_one_that_is_named(
    asics: plain.PlainDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for words, files in ((("-n", "asic1"), {"countersasic1.json"}), ((), {"countersasic0.json", "countersasic1.json"})):
        assert called(clear_qclimb, asics, "counters", *words) == ""
        assert {file.name for file in (tmp_path / ".cache/qclimb").iterdir()} == files
    rows = json.loads(called(plugin, asics, "counters", "Ethernet8", "-j", "-n", "asic0"))
    assert rows[0]["packets"] == 0


def test_a_switch_with_one_asic_has_no_namespaces(server: Redis) -> None:
    assert "this switch has no namespaces instead of 'asic0'" in shown(server, "status", "-n", "asic0")


def test_every_command_takes_a_namespace_and_json() -> None:
    assert set(plugin.qclimb.commands) >= {"status", "ports", "queues", "policy", "classes", "paths", "counters"}
    for name, command in plugin.qclimb.commands.items():
        options = {text for one in command.params for text in one.opts}
        assert {"-n", "--namespace", "-j", "--json"} <= options, name


@pytest.mark.parametrize("module", [plugin, qclimb_counters, qclimb_queues, clear_qclimb])
def test_the_plug_ins_import_only_what_a_sonic_host_has(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text())
    names = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    outside = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert outside <= {"click", "tabulate", "swsscommon", "utilities_common", "show", "switchd"}
    top = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not any(str(name).startswith("switchd") for name in top)  # only for use off a switch


def test_runs_off_a_switch_and_a_missing_redis_is_one_sentence(server: Redis, tmp_path: Path) -> None:
    ran(server)
    argv = [sys.executable, "-m", "switchd.show", "--redis"]
    good = subprocess.run([*argv, server.url, "status", "--json"], capture_output=True, text=True, timeout=300)
    assert json.loads(good.stdout)["admin_state"] == "enabled"
    bad = subprocess.run([*argv, f"unix://{tmp_path}/none", "status"], capture_output=True, text=True, timeout=300)
    assert bad.returncode == 2
    assert bad.stderr.startswith("Error: redis:") and bad.stderr.count("\n") == 1
