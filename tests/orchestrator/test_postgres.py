"""PostgreSQL as the store: today's tables, one leader, and what happens when the server goes away in the midst."""

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from orchestrator.errors import DeposedError, LedError, StoreError
from orchestrator.ingest.recordings import Recordings
from orchestrator.store import tables
from orchestrator.store.copies import backup
from orchestrator.store.reader import Reader
from orchestrator.store.store import Store
from tests.orchestrator.conftest import service_records

ADDRESS = "192.0.2.1:9339"


@pytest.fixture
def url(postgres) -> str:
    return postgres.new()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_migrations_make_the_tables_that_the_code_knows(kind, tmp_path, request):
    url = f"sqlite:///{tmp_path / 'a.db'}" if kind == "sqlite" else request.getfixturevalue("postgres").new()
    store = Store(url)
    with store.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
    store.close()


def test_one_leads_and_the_next_one_leads_after_it_with_a_later_term(url):
    first = Store(url)
    first.put_switch("l1", ADDRESS, "leaf", None)
    with pytest.raises(LedError, match=r"^database postgresql://qclimb@/db\d+: led by another qclimb-orchestrator$"):
        Store(url)
    first.close()
    second = Store(url)
    assert list(second.switches()) == ["l1"]
    assert second.term > first.term
    second.close()


def test_whole_numbers_have_64_bits(url):
    store = Store(url)
    revision = store.add_revision("me", {})
    rollout = store.add_rollout(revision, "me", {})
    store.put_switch("l1", ADDRESS, "leaf", None)
    store.switch_applied("l1", 2**53)
    store.add_model(2**62, "a", {}, b"\0\1", b"\xff")
    assert store.switches()["l1"].applied_generation == 2**53
    assert (store.models()[0].generation, store.model_files(2**62).onnx) == (2**62, b"\0\1")
    store.set_setting("nothing", None)
    assert (rollout, store.setting("nothing")) == (1, None)
    store.close()


def test_flows_are_the_same_after_a_restart(url):
    store, records = Store(url), service_records(300)
    Recordings(store, max_records=200).add("a", "h1", records[:150], None, 3)
    Recordings(store, max_records=200).add("a", "h1", records[150:], None, 0)
    before = Recordings(store).statistics("a")
    store.close()
    again = Store(url)
    found = Recordings(again).statistics("a")
    assert found == before
    assert (found.flows, found.records.kept, found.records.aged_out) == (300, 150, 150)
    again.close()


def test_a_leader_whose_connection_ended_goes_on_where_nobody_led_meanwhile(url, postgres):
    store = Store(url)
    postgres.end_sessions(url)
    with pytest.raises(StoreError) as lost:
        store.put_host("h1")
    assert not isinstance(lost.value, DeposedError)
    assert store.put_host("h1"), "the first one was not kept"
    with pytest.raises(LedError):
        Store(url)
    store.close()


def test_a_leader_whose_lock_another_one_took_writes_nothing_more(url, postgres):
    store = Store(url)
    postgres.end_sessions(url)
    other = Store(url)
    with pytest.raises(StoreError):
        store.put_host("h1")
    for _ in range(2):
        with pytest.raises(DeposedError, match="leads since"):
            store.put_host("h1")
    other.close()
    with pytest.raises(DeposedError):
        store.check_office()
    last = Store(url)
    assert last.hosts() == {}
    assert last.term > other.term
    for each in (store, last):
        each.close()


def test_a_commit_of_which_nobody_knows_whether_it_was_done_ends_the_office(url, postgres):
    store = Store(url)
    with pytest.raises(DeposedError, match="outcome is not known"), store.writing():
        store.put_host("h1")
        postgres.end_sessions(url)
    with pytest.raises(DeposedError):
        store.put_host("h2")
    store.close()


def test_a_server_that_goes_away_is_said_and_waited_for_and_nothing_changes_meanwhile(url, postgres):
    store = Store(url)
    store.put_host("h1")
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(StoreError, match=r"^database postgresql://qclimb@/db\d+: "):
                store.put_host("h2")
        with pytest.raises(StoreError):
            store.check_ready()
    finally:
        postgres.start()
    store.check_office()
    store.check_ready()
    assert list(store.hosts()) == ["h1"]
    assert store.put_host("h2")
    store.close()


FULL = """
CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE disk_full; END $$ LANGUAGE plpgsql;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON settings FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_it_is_not_ready_while_nothing_can_be_written_and_ready_once_the_leader_has_seen_that_it_can(url):
    store = Store(url)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(FULL)
        with pytest.raises(StoreError):
            store.set_setting("recording", "a")
        for _ in range(2):
            with pytest.raises(StoreError):
                store.check_office()
            with pytest.raises(StoreError, match="disk_full"):
                store.check_ready()
        other.execute("DROP TRIGGER full_disk ON settings")
    store.check_office()
    store.check_ready()
    store.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_can_not_hold_all_texts_is_refused_at_the_start(encoding, postgres, tmp_path):
    url = postgres.new(encoding)
    for begin in (Store, Reader, lambda url: backup(url, tmp_path / "backup")):
        with pytest.raises(StoreError, match=rf"/db\d+: its encoding is {encoding}, expected UTF8"):
            begin(url)
    assert not (tmp_path / "backup").exists()


def test_the_encoding_that_the_environment_names_is_not_used(url, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    store = Store(url)
    store.note("Ünal", "did", "it")
    assert store.notes(1)[0].actor == "Ünal"
    store.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://me:secret@db.example/q?sslmode=prefer", "sslmode is 'prefer', expected verify-full"),
        ("postgresql://me:secret@192.0.2.1/q?sslmode=disable", "sslmode is 'disable'"),
        ("postgresql://me:secret@db.example", "names no database"),
        ("postgresql://me:secret@db.example:port/q", "expected postgresql://HOST/NAME"),
        ("postgresql://me:secret@127.0.0.1:1/q", "database postgresql://me:[*]{3}@127.0.0.1:1/q: .*refused"),
    ],
)
def test_what_is_no_safe_place_is_refused_and_the_password_is_in_no_sentence(url, sentence):
    with pytest.raises(StoreError, match=sentence) as found:
        Store(url)
    assert "secret" not in str(found.value)
