"""Who was refused, as the audit log tells it; and a database that is damaged, or not its owner's alone."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from orchestrator.errors import StoreError
from orchestrator.rest.health import SharedCheck
from orchestrator.rest.refusals import KINDS
from orchestrator.store import database
from orchestrator.store.store import Store
from tests.orchestrator.asking import detail
from tests.waiting import wait_until


def refused(admin, count: int) -> list[dict[str, str]]:
    """The notes of refusals once there are so many."""

    def refused():
        notes = admin.get("/v1/audit?last=1000").json()
        found = [note for note in notes if note["action"].startswith("refused-")]
        return found if len(found) >= count else None

    return wait_until(refused, f"the audit log has {count} refusals")


def test_who_was_refused_is_in_the_audit_log(admin, service):
    service.refusals._every_s = 0.01
    token = admin.post("/v1/tokens", json={"role": "host", "name": "h2"}).json()["token"]
    theirs = {"Authorization": f"Bearer {token}"}
    assert admin.get("/v1/state", headers={"Authorization": "Bearer guessed"}).status_code == 401
    assert admin.get("/v1/state", headers=theirs).status_code == 403
    assert admin.get("/v1/hosts/h1/policy", headers=theirs).status_code == 403
    found = {(note["actor"], note["action"], note["subject"]) for note in refused(admin, 3)}
    assert found == {
        ("testclient", "refused-401", "GET /v1/state"),
        ("h2", "refused-403", "GET /v1/state"),
        ("h2", "refused-403", "GET /v1/hosts/h1/policy"),
    }
    assert "guessed" not in str(found)


def test_many_refusals_make_few_notes_that_count_them(admin, service):
    nobody = {"Authorization": "Bearer guessed"}
    admin.get("/v1/state", headers=nobody)
    refused(admin, 1)
    for number in range(150):  # fewer than an address may send in a while
        admin.get(f"/v1/models/{number + 1}", headers=nobody)
    service.refusals.close()  # a minute later
    found = refused(admin, 2)
    assert len(found) <= 1 + KINDS + 1
    assert {"others"} <= {note["actor"] for note in found}
    assert any(note["subject"].endswith(f", {150 - KINDS} times") for note in found)


def test_no_path_and_no_fault_ends_the_writing_of_refusals(admin, service, monkeypatch):
    service.refusals._every_s = 0.01
    nobody = {"Authorization": "Bearer guessed"}
    with monkeypatch.context() as broken:
        broken.setattr(service.store, "note", lambda *_: (_ for _ in ()).throw(ValueError("not for a database")))
        admin.get("/v1/state", headers=nobody)
        service.refusals.close()
    admin.get("/v1/switches/a%00b", headers=nobody)
    assert [note["subject"] for note in refused(admin, 1)] == ["GET /v1/switches/a\\x00b"]


def test_a_database_is_for_its_owner_alone(tmp_path):
    path = tmp_path / "store.db"
    Store(f"sqlite:///{path}").close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)  # as older versions left it
    store = Store(f"sqlite:///{path}")
    store.put_host("h1")
    assert {found.name for found in tmp_path.glob("store.db*")} >= {"store.db", "store.db-wal", "store.db-shm"}
    assert all(found.stat().st_mode & 0o777 == 0o600 for found in tmp_path.glob("store.db*"))
    store.close()


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_a_database_is_led_by_one_whatever_name_each_knows_it_by(link, tmp_path):
    path, other = tmp_path / "store.db", tmp_path / "elsewhere" / "linked.db"
    other.parent.mkdir()
    store = Store(f"sqlite:///{path}")
    getattr(other, link)(path)
    with pytest.raises(StoreError, match="in use by another"):
        Store(f"sqlite:///{other}")
    store.put_host("h1")
    store.close()
    again = Store(f"sqlite:///{other}")
    assert list(again.hosts()) == ["h1"]
    again.close()


def test_a_link_that_leads_in_a_circle_is_no_database(tmp_path):
    (tmp_path / "a.db").symlink_to(tmp_path / "a.db")
    with pytest.raises(StoreError, match=r"a\.db: "):
        Store(f"sqlite:///{tmp_path / 'a.db'}")


def damaged(path) -> None:
    """Overwrites a page in the middle of what the audit log has."""
    content = bytearray(path.read_bytes())
    at = content.index(b"somebody 150 ") // 4096 * 4096
    content[at : at + 64] = b"\xff" * 64
    path.write_bytes(content)


def test_a_damaged_database_is_refused_at_the_start(tmp_path):
    path = tmp_path / "store.db"
    store = Store(f"sqlite:///{path}")
    for number in range(300):
        store.note(f"somebody {number} ", "did", "x" * 100)
    store.close()
    damaged(path)
    with pytest.raises(StoreError, match=r"damaged .*expected a whole one: restore a backup"):
        Store(f"sqlite:///{path}")


@pytest.fixture
def full(service) -> Iterator[Callable[[], None]]:
    """A database that keeps no token and no setting, as on a full disk; called, it does again."""
    kept = ("tokens", "settings")
    with sqlite3.connect(service.store.path) as connection:
        for table in kept:
            for verb in ("INSERT", "UPDATE"):
                said = "SELECT RAISE(ABORT, 'disk is full')"
                connection.execute(f"CREATE TRIGGER {table}{verb} BEFORE {verb} ON {table} BEGIN {said}; END")

    def free() -> None:
        for table in kept:
            for verb in ("INSERT", "UPDATE"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}{verb}")
        connection.commit()

    yield free
    free()
    connection.close()


def until_ready(client) -> None:
    end = time.monotonic() + 60
    while client.get("/ready").status_code != 204:
        assert time.monotonic() < end, client.get("/ready").text
        time.sleep(0.05)


@pytest.mark.sqlite_only("its triggers are SQLite's")
def test_it_is_ready_again_once_a_fault_is_over_though_nobody_writes(admin, full):
    detail(admin.post("/v1/tokens", json={"role": "viewer", "name": "eve"}), 503)
    end = time.monotonic() + 2.5 * database.PROBE_S
    while time.monotonic() < end:  # its own probes fail, too
        assert detail(admin.get("/ready"), 503).endswith("disk is full")
        assert admin.get("/healthz").status_code == 204
        time.sleep(0.1)
    full()
    until_ready(admin)
    assert admin.post("/v1/tokens", json={"role": "viewer", "name": "eve"}).status_code == 201


def test_all_who_ask_while_a_check_is_under_way_share_its_outcome():
    ends, calls = threading.Event(), []

    def check() -> None:
        calls.append(ends.wait(60))
        raise StoreError("disk is full")

    async def ask() -> list[object]:
        shared = SharedCheck(check)
        asked = [asyncio.create_task(shared.outcome()) for _ in range(100)]
        await asyncio.sleep(0)
        asked[0].cancel()
        ends.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    gone, *others = asyncio.run(ask())
    assert isinstance(gone, asyncio.CancelledError)
    assert [str(each) for each in others] == ["disk is full"] * 99
    assert calls == [True]


@pytest.mark.sqlite_only("damages the database's file")
def test_it_is_not_ready_with_a_database_that_is_damaged(admin, service):
    assert admin.get("/ready").status_code == 204
    for number in range(300):
        service.store.note(f"somebody {number} ", "did", "x" * 100)
    with service.store.reading() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    service.store.engine.dispose()
    damaged(service.store.path)
    detail(admin.get("/v1/audit?last=1000"), 503)
    assert "damaged" in detail(admin.get("/ready"), 503)
