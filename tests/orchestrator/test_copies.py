"""Backup and restore: a whole fabric's memory in one file, into either kind of database; and JSON logs."""

import json
import logging
import os
import sqlite3
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli import main
from orchestrator.errors import StoreError
from orchestrator.ingest.recordings import Recordings
from orchestrator.logs import JsonLines
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.store.copies import WHY_ENDED, backup, restore
from orchestrator.store.sqlite_file import url_of
from orchestrator.store.store import Store
from tests.orchestrator.conftest import service_records


def filled(store: Store) -> str:
    """A token of a store that has some of everything."""
    token = tokens.issue(store, "root", Role.ADMIN)
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    store.put_host("h1")
    store.add_model(2**53, "a", {"coverage": 1.0}, b"\0onnx", b"\xffforest")
    revision = store.add_revision("me", {"policy": {"mode": "pias"}})
    store.add_rollout(revision, "me", {"generation": 7, "switches": {"l1": {"phase": "pushing"}}})
    store.set_setting("recording", None)
    store.keep_answer("once", "asked", {"id": 1})
    store.note("me", "did", "something")
    Recordings(store).add("a", "h1", service_records(100), None, 3)
    return token


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_is_backed_up_in_use_is_there_after_a_restore(store, tmp_path, kind, request):
    token, term = filled(store), store.term
    counts = backup(store.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""), tmp_path / "b")
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    store.put_host("later")
    url = f"sqlite:///{tmp_path / 'new.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").new()
    assert restore(url, tmp_path / "b") == counts
    found = Store(url)
    assert tokens.identify(found, f"Bearer {token}") == tokens.Caller("root", Role.ADMIN)
    for name in ("switches", "models", "revisions", "last_batch"):
        ours, theirs = (getattr(each if name != "last_batch" else Recordings(each), name)() for each in (store, found))
        assert ours == theirs, name
    assert list(found.hosts()) == ["h1"]
    assert found.model_files(2**53) == store.model_files(2**53)
    assert Recordings(found).statistics(None) == Recordings(store).statistics(None)
    assert (found.answer("once"), found.notes(1)) == (store.answer("once"), store.notes(1))
    last = found.last_rollout()
    assert last is not None and (last.phase, last.document["error"]) == ("failed", WHY_ENDED)
    assert found.steps(1) == store.steps(1)
    assert found.term > term
    assert found.add_revision("me", {}) == 2, "numbers go on"
    found.close()
    with pytest.raises(
        StoreError, match=r"database .* has switches already|has tokens already|already, expected an empty"
    ):
        restore(url, tmp_path / "b")


@pytest.mark.sqlite_only("names the database by its file; test_postgres has backups of PostgreSQL")
def test_what_is_no_backup_or_no_place_for_one_changes_nothing(store, tmp_path):
    filled(store)
    url = f"sqlite:///{store.path}"
    backup(url, tmp_path / "b")
    with pytest.raises(StoreError, match="is there, expected the name of a new file"):
        backup(url, tmp_path / "b")
    with pytest.raises(StoreError, match="expected a place for a backup"):
        backup(url, tmp_path / "none" / "b")
    with pytest.raises(StoreError, match="no such file, expected one to read"):
        backup(f"sqlite:///{tmp_path / 'none.db'}", tmp_path / "c")
    content = bytearray((tmp_path / "b").read_bytes())
    (tmp_path / "cut").write_bytes(content[: len(content) // 2])
    (tmp_path / "other").write_bytes(b"something else, and quite long" * 100)
    for name in ("cut", "other", "none"):
        with pytest.raises(StoreError, match=str(tmp_path / name)):
            restore(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / name)
    assert not (tmp_path / "new.db").exists()
    with pytest.raises(StoreError, match="in use by another"):
        restore(url, tmp_path / "b")
    assert sorted(path.name for path in tmp_path.glob("*.new")) == []


@pytest.mark.sqlite_only("names the database by its file; test_postgres has backups of PostgreSQL")
def test_a_backup_of_an_older_version_is_brought_to_todays_tables(store, tmp_path):
    token = filled(store)
    backup(f"sqlite:///{store.path}", tmp_path / "b")
    with sqlite3.connect(tmp_path / "b") as older:
        older.execute("drop table alembic_version")
        older.execute("alter table tokens drop column expires_at")
        older.execute("insert into settings values ('schema_version', '2')")
    restore(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "b")
    found = Store(f"sqlite:///{tmp_path / 'new.db'}")
    assert tokens.identify(found, f"Bearer {token}") is not None
    found.close()


@pytest.mark.sqlite_only("names the database by its file; test_postgres has backups of PostgreSQL")
def test_the_commands_take_the_database_from_the_settings_of_serve(store, tmp_path: Path):
    filled(store)
    settings = tmp_path / "orchestrator.toml"
    settings.write_text(f'listen = "127.0.0.1:0"\ndatabase = "sqlite:///{store.path}"\n')
    done = CliRunner().invoke(main, ["backup", "--config", str(settings), str(tmp_path / "b"), "--json"])
    assert (done.exit_code, json.loads(done.output)["switches"]) == (0, 1), done.output
    done = CliRunner().invoke(main, ["restore", "--database", f"sqlite:///{tmp_path / 'n.db'}", str(tmp_path / "b")])
    assert done.exit_code == 0 and "1 switches" in done.output, done.output
    for words in (["backup", "--database", "mysql://x", str(tmp_path / "c")], ["restore", str(tmp_path / "b")]):
        refused = CliRunner().invoke(main, words)
        assert refused.exit_code == 2 and refused.output.strip().splitlines()[-1].startswith("Error: ")


def test_a_line_of_the_json_log_has_the_names_of_its_message_as_fields():
    told = ("rollout id=%d event=wave-opened by=%s share=%.2f because=%r 100%%", (7, "me", 0.5, "x=1 y=2"))
    record = logging.LogRecord("orchestrator", logging.INFO, "", 0, *told, None)
    found = json.loads(JsonLines().format(record))
    assert found.pop("at").endswith("+00:00")
    assert found == {
        "level": "INFO",
        "logger": "orchestrator",
        "message": "rollout id=7 event=wave-opened by=me share=0.50 because='x=1 y=2' 100%",
        **{"id": 7, "event": "wave-opened", "by": "me", "share": 0.5, "because": "x=1 y=2"},
    }
    plain = json.loads(JsonLines().format(logging.LogRecord("uvicorn", 30, "", 0, "no names: %s", ("a=b",), None)))
    assert plain["message"] == "no names: a=b" and "a" not in plain


@pytest.mark.parametrize("name", ["a#b", "a%20b", "a b%", "-c", "a?mode=ro", "\u00fc"])
def test_a_database_of_any_name_is_locked_and_backed_up(tmp_path, name):
    (tmp_path / name).mkdir()
    file, copy = tmp_path / name / name, tmp_path / name / "b"
    store = Store(url_of(file))
    store.put_host("h1")
    with pytest.raises(StoreError, match="in use"):
        Store(url_of(file))
    assert backup(url_of(file), copy)["hosts"] == 1
    store.close()
    assert restore(url_of(file.with_name(f"{name}2")), copy)["hosts"] == 1
    assert {f"{name}", f"{name}2"} <= {each.name for each in (tmp_path / name).iterdir()}
    assert file.stat().st_size and len(list(tmp_path.iterdir())) == 1, "nothing lies elsewhere"


def test_what_is_no_file_is_refused_and_keeps_its_mode(tmp_path):
    os.mkfifo(tmp_path / "fifo", 0o644)
    before = (tmp_path / "fifo").stat().st_mode
    with pytest.raises(StoreError, match="no regular file"):
        Store(url_of(tmp_path / "fifo"))
    assert (tmp_path / "fifo").stat().st_mode == before


@pytest.mark.sqlite_only("PostgreSQL never held such text")
def test_text_of_an_older_version_that_postgresql_cannot_hold_moves_there_as_its_escape(store, tmp_path, postgres):
    filled(store)
    store.put_switch("l2", "192.0.2.2:9339", "leaf", "a\0b")
    store.note("me", "did", "c\0d")
    backup(f"sqlite:///{store.path}", tmp_path / "b")
    url = postgres.new()
    restore(url, tmp_path / "b")
    found = Store(url)
    assert found.switches()["l2"].server_name == r"a\x00b" and found.notes(1)[0].subject == r"c\x00d"
    found.close()
