"""`show qclimb`: the plug-in as `show` loads it, and the same commands over a plain redis."""

import ast
import json
import subprocess
import sys
import time
from pathlib import Path

import click
from click.testing import CliRunner

from switchd.show import qclimb as plugin
from tests.switchd.stand import COUNTERS, STATE, Redis


def shown(server: Redis, *words: str) -> str:
    """What the plug-in prints below a `show` that brings its Db along."""
    show = click.Group("show")
    plugin.register(show)
    result = CliRunner().invoke(show, ["qclimb", *words], obj=plugin.PlainDb(server.url), catch_exceptions=False)
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
    for word in ([], ["status"], ["ports"], ["classes"], ["paths"], ["counters"]):
        assert shown(server, *word) == plugin.NEVER_RAN + "\n"
    assert json.loads(shown(server, "status", "--json")) == {}


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
    for age_s, word in ((0, "running"), (10, "running"), (300, "not running (last seen 30")):
        server.db(STATE).hset("QCLIMB_STATUS|global", "heartbeat", str(now - age_s))
        assert json.loads(shown(server, "status", "-j"))["daemon"].startswith(word)


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
        result = CliRunner().invoke(show, ["qclimb", *word], obj=plugin.PlainDb(server.url))
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


def test_the_plug_in_imports_only_what_a_sonic_host_has() -> None:
    tree = ast.parse(Path(plugin.__file__).read_text())
    names = {n.name for node in ast.walk(tree) if isinstance(node, ast.Import) for n in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    outside = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert outside <= {"click", "tabulate", "swsscommon", "utilities_common", "redis"}
    top = {n.name for node in tree.body if isinstance(node, ast.Import) for n in node.names}
    assert "redis" not in top  # only for use off a switch


def test_runs_off_a_switch_and_a_missing_redis_is_one_sentence(server: Redis, tmp_path: Path) -> None:
    ran(server)
    argv = [sys.executable, "-m", "switchd.show", "--redis"]
    good = subprocess.run([*argv, server.url, "status", "--json"], capture_output=True, text=True, timeout=300)
    assert json.loads(good.stdout)["admin_state"] == "enabled"
    bad = subprocess.run([*argv, f"unix://{tmp_path}/none", "status"], capture_output=True, text=True, timeout=300)
    assert bad.returncode == 2
    assert bad.stderr.startswith("Error: redis:") and bad.stderr.count("\n") == 1
