"""Rows of an earlier version are understood and rewritten; those of a newer one are left alone."""

import random
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import grpc
import pytest
from qclimb.config_db import VERSION, digest_of, with_digest
from qclimb.errors import IntentError, NewerRows
from qclimb.gnmi_ext import Commit
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.schema import validate_config_db

from switchd import commits
from switchd.apply import Switch
from switchd.gnmi.server import status_of
from switchd.intents import intent_of
from switchd.migrations import STEPS, check_not_newer, migration
from switchd.rows import Put, Rows, applied
from tests.switchd.stand import Redis
from tests.switchd.test_histories import BEFORE, PORTS
from tests.switchd.test_two_writers import Box
from tests.switchd.world import Killed, World

INTENT = SwitchIntent(7, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 5)), ports=tuple(PORTS[:2]))


def old(intent: SwitchIntent = INTENT, marked: bool = True) -> Rows:
    """As the first versions wrote it: the ports as a leaf-list."""
    rows = with_digest(intent.to_config_db()) if marked else intent.to_config_db()
    row = dict(rows["QCLIMB"]["global"])
    row["ports@"] = row.pop("ports")
    return {**rows, "QCLIMB": {"global": row}}


def world(rows: Rows) -> World:
    return World({**BEFORE, **rows}, random.Random(1))


def ours(rows: Rows) -> Rows:
    return {table: entries for table, entries in rows.items() if table.startswith("QCLIMB") and "PREVIOUS" not in table}


@pytest.mark.parametrize("marked", [True, False])
def test_rows_of_the_first_version_become_todays_without_loss(marked: bool) -> None:
    before = old(marked=marked)
    after = applied(before, migration(before))
    assert intent_of(after) == intent_of(before) == INTENT  # and the digest is the same
    assert after == (with_digest(INTENT.to_config_db()) if marked else INTENT.to_config_db())
    validate_config_db(after)
    assert migration(after) == ()


@pytest.mark.parametrize("row", [{"ports@": ""}, {"ports@": "Ethernet4", "ports": "Ethernet0"}, {"NULL": "NULL"}, {}])
def test_the_intent_is_the_same_before_and_after(row: dict[str, str]) -> None:
    before: Rows = {"QCLIMB": {"global": {"generation": "7", **row}}}
    after = applied(before, migration(before))
    assert intent_of(after) == intent_of(before)
    assert "ports@" not in after["QCLIMB"]["global"]


def test_there_is_a_step_to_each_version_and_none_beyond() -> None:
    assert list(STEPS) == list(range(2, VERSION + 1))
    told = migration({"QCLIMB": {"global": {"generation": "7", "version": "1"}}})
    assert told == (Put("QCLIMB", "global", {"generation": "7", "version": str(VERSION)}),)
    assert migration({"QCLIMB": {"global": {"version": "x"}}}) == ()  # nonsense is somebody's to mend
    assert migration({}) == ()


def test_an_upgraded_daemon_rewrites_them_once_when_nobody_patches_and_keeps_what_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box = Box(monkeypatch)
    box.switch.edit(lambda _: INTENT)
    box.settled(7)
    box.world.change(*(Put(table, key, row) for table, rows in old().items() for key, row in rows.items()))
    before, box.world.writes_left, box.switch = box.world.rows, 1, Switch(box.world, quiet_s=10.0)
    box.passes(9)
    assert box.world.rows == before
    assert box.switch.snapshot.intent == INTENT
    box.settled(7)
    assert ours(box.world.rows) == with_digest(INTENT.to_config_db())
    assert {table for table in before if box.world.rows[table] != before[table]} == {"QCLIMB"}
    assert not any("waiting" in line for line in box.said[-200:])


def test_they_are_rewritten_where_the_switch_refuses_the_intent_too() -> None:
    """Else no patch of SONiC's would pass there, not even the one that mends it."""
    nowhere = SwitchIntent(8, "enabled", (QueueClass(0, 47, 7),), ports=("Ethernet99",))
    switch = Switch(box := world(old(nowhere)))
    switch.follow()
    assert "Ethernet99" in switch.snapshot.status.last_error
    assert box.rows["QCLIMB"]["global"]["ports"] == "Ethernet99"


def test_a_commit_of_the_old_version_is_undone_to_todays_rows() -> None:
    switch = Switch(box := world(old()))
    switch.edit(lambda _: SwitchIntent(8, "disabled", ()), Commit("c1", "commit", 60.0))
    switch.settle(Commit("c1", "cancel"))
    switch.follow()
    assert ours(box.rows) == with_digest(INTENT.to_config_db())


def newer() -> Rows:
    row: dict[str, str] = {**INTENT.to_config_db()["QCLIMB"]["global"], "version": str(VERSION + 1), "shape": "of then"}
    return {"QCLIMB": {"global": row}, "QCLIMB_CLASS": {"first": {"what": "ever"}}}


def test_rows_of_a_newer_version_are_one_sentence_and_nothing_is_changed() -> None:
    switch = Switch(box := world(INTENT.to_config_db()))
    switch.follow()
    box.change(*(Put(table, key, row) for table, rows in newer().items() for key, row in rows.items()))
    before, box.writes_left = box.rows, 0
    for one in (switch, Switch(box)):
        one.follow()
        one.look()
        assert one.snapshot.status.last_error == (
            f"QCLIMB|global version is {VERSION + 1}, expected at most {VERSION}: a newer qclimb wrote these rows, so "
            "nothing is changed; upgrade this one"
        )
        acts: list[Any] = [
            lambda one=one: one.edit(lambda _: INTENT),
            lambda one=one: one.settle(Commit("c1", "cancel")),
            one.give_back,
        ]
        for act in acts:
            with pytest.raises(NewerRows) as refused:
                act()
            assert status_of(refused.value)[0] is grpc.StatusCode.FAILED_PRECONDITION
    assert box.rows == before


@pytest.mark.parametrize("version", ["255", "256", str(2**64 - 1)])
def test_however_large_a_version_is_it_is_newer(version: str) -> None:
    with pytest.raises(NewerRows, match=version):
        check_not_newer({"QCLIMB": {"global": {"version": version}}})


@pytest.mark.parametrize("version", ["0", "-1", "x", str(2**64)])
def test_a_version_that_is_none_makes_no_intent(version: str) -> None:
    rows: Rows = {"QCLIMB": {"global": {"generation": "7", "version": version}}}
    check_not_newer(rows)
    with pytest.raises(IntentError, match="version"):
        intent_of(rows)


def test_a_commit_that_is_due_waits_for_a_newer_versions_rows_to_change_and_reads_nothing_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = type("Clock", (), {"now_s": 1000.0, "monotonic": lambda self: self.now_s})()
    monkeypatch.setattr(commits, "time", clock)
    switch = Switch(box := world(INTENT.to_config_db()), now_s=clock.monotonic)
    switch.follow()
    switch.edit(lambda _: SwitchIntent(8, "disabled", ()), Commit("c1", "commit", 60.0))
    committed = box.rows["QCLIMB"]["global"]
    box.change(Put("QCLIMB", "global", {**committed, "version": str(VERSION + 1)}))
    switch.follow()
    clock.now_s += 100.0
    read, reads = box.get_whole_tables, 0

    def counted(tables: Sequence[str]) -> Rows:
        nonlocal reads
        reads += 1
        return read(tables)

    monkeypatch.setattr(box, "get_whole_tables", counted)
    for _ in range(50):
        switch.look()
    assert reads <= 1
    box.change(Put("QCLIMB", "global", committed))
    switch.follow()
    assert ours(box.rows) == INTENT.to_config_db()
    assert switch.board.commit["commit_status"] == "rolled-back"


def test_the_patch_tool_leaves_a_newer_versions_rows_alone(server: Redis) -> None:
    server.load(newer())
    for words in (["--admin-state", "disabled"], ["-"]):
        argv = [sys.executable, "-m", "switchd.patch", *words, "--backend", "redis", "--redis", server.url]
        text = '{"QCLIMB": {"global": {"generation": "1"}}}'
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 2
        assert "a newer qclimb wrote these rows" in done.stderr


def test_a_daemon_that_is_killed_while_it_rewrites_leaves_the_old_rows_or_the_new() -> None:
    box = world(old())
    box.writes_left = 0
    with pytest.raises(Killed):
        Switch(box).follow()
    assert ours(box.rows) == old()
    assert digest_of(old()) == digest_of(INTENT.to_config_db())
