"""`show qclimb`: the plug-in as `show` loads it, and the same commands over a plain redis."""

import ast
import json
import subprocess
import sys
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
    for word in ([], ["status"], ["classes"], ["paths"], ["counters"]):
        assert shown(server, *word) == plugin.NEVER_RAN + "\n"
    assert json.loads(shown(server, "status", "--json")) == {}


def test_status_tells_what_is_applied_and_why_not(server: Redis) -> None:
    ran(server)
    lines = dict(line.split(None, 1)[0:2] for line in shown(server, "status").splitlines() if line[:1].isalpha())
    assert "Applied" in lines
    assert "queue 3" in shown(server)
    assert json.loads(shown(server, "status", "--json"))["applied_generation"] == "4"


def test_classes_are_in_the_order_of_service(server: Redis) -> None:
    ran(server)
    assert list(json.loads(shown(server, "classes", "-j"))) == ["0", "1", "10"]
    assert [line.split()[:3] for line in shown(server, "classes").splitlines()[2:]] == [
        ["0", "47", "7"],
        ["1", "46", "6"],
        ["10", "37", "5"],
    ]


def test_paths_group_the_priorities(server: Redis) -> None:
    ran(server)
    assert json.loads(shown(server, "paths", "--json")) == {"balanced": ["0", "1", "10"]}


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
    assert outside <= {"click", "tabulate", "natsort", "swsscommon", "utilities_common", "redis"}
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
