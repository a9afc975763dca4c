"""`config qclimb`: what the plug-in has the container make, and what SONiC's patcher is given."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from qclimb.intent import QueueClass, SwitchIntent

from switchd.db_redis import RedisDatabase
from switchd.patchers import PATCH_S, patchers
from switchd.show import config_qclimb as plugin
from switchd.show import plain
from tests.switchd.stand import CONFIG, STATE, Redis

INTENT = SwitchIntent(4, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 6)), ports=("Ethernet0",))
NEXT = SwitchIntent(5, "enabled", INTENT.classes, ports=INTENT.ports)
NOWHERE = SwitchIntent(4, "enabled", INTENT.classes, ports=("Ethernet99",))


@pytest.fixture
def given(server: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where `config` puts the patch that it is given; `docker exec` runs the command here, over this redis."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "docker").write_text(
        f'#!/bin/sh\nshift 6\nexec {sys.executable} -m switchd.patch --backend redis --redis {server.url} "$@"\n'
    )
    (commands / "config").write_text(f'#!/bin/sh\ncp "$2" {tmp_path}/patch.json\n')
    for file in commands.iterdir():
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return tmp_path / "patch.json"


def run(*words: str, text: str = "", obj: object = None) -> tuple[int, str]:
    config = click.Group("config")
    plugin.register(config)
    found = CliRunner().invoke(config, ["qclimb", *words], input=text, catch_exceptions=False, obj=obj)
    return found.exit_code, found.output


@pytest.mark.parametrize("form", [INTENT.to_gnmi(), INTENT.to_config_db()], ids=["gnmi", "rows"])
def test_an_intent_is_patched_in_alone_for_the_patcher_takes_ports_down(given: Path, form: object) -> None:
    status, said = run("apply", "-", text=json.dumps(form))
    assert status == 0
    assert "switchd follows" in said
    patch = {one["path"]: one["value"] for one in json.loads(given.read_text())}
    assert set(patch) == {"/QCLIMB", "/QCLIMB_CLASS"}
    assert patch["/QCLIMB"]["global"]["ports"] == "Ethernet0"


@pytest.mark.parametrize("form", [INTENT.to_gnmi(), INTENT.to_config_db()], ids=["gnmi", "rows"])
def test_an_intent_is_patched_in_with_its_rows_where_that_is_asked_for(given: Path, form: object) -> None:
    assert run("apply", "-", "--with-rows", text=json.dumps(form)) == (0, "")
    patch = {one["path"]: one["value"] for one in json.loads(given.read_text())}
    assert patch["/QCLIMB"]["global"]["ports"] == "Ethernet0"
    assert set(patch["/QUEUE"]) == {"Ethernet0|7", "Ethernet0|6"}
    assert patch["/QCLIMB_PREVIOUS"]["Ethernet0"] == {}


def test_of_several_asics_one_has_to_be_named_for_each_has_its_intent(
    given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESPACE_COUNT", "2")
    for words, text in ((("apply", "-"), json.dumps(INTENT.to_gnmi())), (("enable",), ""), (("disable",), "")):
        status, said = run(*words, text=text)
        assert (status, said.splitlines()) == (
            2,
            ["Error: -n: expected one of asic0, asic1: each ASIC has an intent of its own"],
        )
    assert not given.exists()


@pytest.mark.parametrize(
    ("outcome", "error", "answer"),
    [
        ("applied", "", (0, "Generation 4 is applied\n")),
        ("refused", "queue 3 has PFC", (1, "Generation 4 is not applied: queue 3 has PFC\n")),
        ("refused", "a\x1b[2J\u202e", (1, "Generation 4 is not applied: a\\x1b[2J\\u202e\n")),
    ],
)
def test_the_switchs_answer_is_waited_for(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch, outcome: str, error: str, answer: tuple[int, str]
) -> None:
    server.load(INTENT.to_config_db())  # as the patcher leaves it
    state = server.db(STATE)
    told = [("3", "applied", ""), ("4", "waiting", "a patch goes on"), ("4", "waiting", ""), ("4", outcome, error)]

    def passes(_: float) -> None:
        told_now = dict(zip(("desired_generation", "outcome", "last_error"), told.pop(0), strict=True))
        told_now["heartbeat"] = "1000"
        state.hset("QCLIMB_STATUS|global", mapping=told_now)

    clock(monkeypatch, passes)
    assert run("apply", "-", text=json.dumps(NEXT.to_gnmi()), obj=plain.PlainDb(server.url)) == answer
    assert not told


def clock(monkeypatch: pytest.MonkeyPatch, passes: Callable[[float], object]) -> None:
    """The plug-in's: 1,003 s since 1970, and `passes` instead of a pause."""
    now = {"sleep": staticmethod(passes), "time": staticmethod(lambda: 1003.0)}
    monkeypatch.setattr(plugin, "time", type("Time", (), now))


def test_a_switch_that_lives_and_does_not_answer_is_not_waited_for_without_end(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load(INTENT.to_config_db())
    server.db(STATE).hset("QCLIMB_STATUS|global", mapping={"desired_generation": "3", "heartbeat": "1000"})
    slept: list[float] = []
    clock(monkeypatch, slept.append)
    status, said = run("disable", obj=plain.PlainDb(server.url))
    assert (status, said, sum(slept)) == (0, plugin.WRITTEN + "\n", plugin.WAIT_S)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({}, "STATE_DB has no heartbeat of it"),
        ({"heartbeat": "961"}, "its last heartbeat is 42 s old"),
        ({"heartbeat": "100961"}, "its last heartbeat is 99958 s ahead of the clock"),
        (
            {"heartbeat": "961", "desired_generation": "4", "outcome": "applied"},  # what it said earlier
            "its last heartbeat is 42 s old",
        ),
    ],
)
def test_a_daemon_that_is_dead_is_told_within_seconds(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch, row: dict[str, str], why: str
) -> None:
    server.load(INTENT.to_config_db())
    if row:
        server.db(STATE).hset("QCLIMB_STATUS|global", mapping=row)
    slept: list[float] = []
    clock(monkeypatch, slept.append)
    status, said = run("disable", obj=plain.PlainDb(server.url))
    assert (status, said) == (1, plugin.SILENT.format(why) + "\n")
    assert sum(slept) <= 2 * plugin.BEAT_S
    assert given.exists(), "the intent is written all the same"


def test_a_heartbeat_after_a_step_of_the_clock_counts(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.load(INTENT.to_config_db())
    state = server.db(STATE)
    earlier = {"desired_generation": "4", "outcome": "applied", "heartbeat": "5"}
    state.hset("QCLIMB_STATUS|global", mapping=earlier)
    told = ["5"] * plugin.BEAT_S + ["1003"]
    clock(monkeypatch, lambda _: state.hset("QCLIMB_STATUS|global", "heartbeat", told.pop(0)))
    assert run("disable", obj=plain.PlainDb(server.url)) == (0, "Generation 4 is applied\n")


def test_configs_own_connections_are_no_patch_while_it_waits_for_the_answer(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else switchd would wait for `config`, and `config` for switchd."""
    server.load(INTENT.to_config_db())
    config = server.db(CONFIG)
    config.get("CONFIG_DB_INITIALIZED")

    class Connector:
        def get_redis_client(self, name: str) -> "Connector":
            assert name == "CONFIG_DB"
            return self

        def setClientName(self, name: str) -> None:
            config.client_setname(name)
            config.get("CONFIG_DB_INITIALIZED")

    both = plain.PlainDb(server.url)
    both.cfgdb_clients = {"": Connector()}  # type: ignore[attr-defined]
    seen: list[bool] = []
    others = RedisDatabase(server.url)
    assert patchers(others.client_list(), PATCH_S)
    clock(monkeypatch, lambda _: seen.append(not patchers(others.client_list(), PATCH_S)))
    run("disable", obj=both)
    others.close()
    assert seen
    assert all(seen)


def test_a_redis_that_goes_while_the_answer_is_waited_for_is_no_failure(
    given: Path, server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(plain.PlainDb):
        def get_all(self, *_: str) -> dict[str, str]:
            raise RuntimeError("Unable to read redis reply")

    server.load(INTENT.to_config_db())
    assert run("disable", obj=Gone(server.url)) == (0, plugin.WRITTEN + "\n")


def test_disable_gives_back_in_one_patch(given: Path, server: Redis) -> None:
    server.load(INTENT.to_config_db())
    assert run("disable")[0] == 0
    (one,) = json.loads(given.read_text())
    assert (one["path"], one["value"]["admin_state"], one["value"]["generation"]) == ("/QCLIMB/global", "disabled", "5")


@pytest.mark.parametrize(
    ("words", "text", "reason"),
    [
        (("apply", "-"), "{", "no JSON"),
        (("apply", "-"), '{"QCLIMB": {"global": {"generation": "x"}}}', "QCLIMB|global generation is 'x'"),
        (("apply", "-"), json.dumps(NOWHERE.to_gnmi()), "Ethernet99"),
        (("enable",), "", "there is no intent to make enabled"),
    ],
)
def test_what_can_not_be_patched_is_one_sentence(given: Path, words: tuple[str, ...], text: str, reason: str) -> None:
    status, said = run(*words, text=text)
    assert status == 2
    assert reason in said
    assert len(said.splitlines()) == 1
    assert not given.exists()


def test_the_plug_in_needs_nothing_of_ours() -> None:
    ours = "(name for name in sys.modules if name.startswith(('switchd', 'qclimb')))"
    code = f"import sys, runpy; runpy.run_path(sys.argv[1]); print(*{ours})"
    words = [sys.executable, "-c", code, plugin.__file__]
    assert subprocess.run(words, capture_output=True, text=True, check=True, timeout=300, cwd="/").stdout.split() == []
