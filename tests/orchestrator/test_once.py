"""Requests repeated with their Idempotency-Key: done once, told apart from other requests, kept with what they did."""

import threading
import time

import pytest
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.record_rows import from_records
from sqlalchemy import text

from orchestrator.errors import StoreError
from orchestrator.rest import tokens
from orchestrator.rest.idempotency import once
from orchestrator.rest.tokens import Role
from orchestrator.store import database
from orchestrator.store import store as remembered

KEY = {"Idempotency-Key": "k1"}
REVISION = {"priorities": 2, "thresholds": [5000]}
FLOW = {"start_ns": 1, "last_write_ns": 5, "size_bytes": 1000}


def post(client, path, body, key="k1", **headers):
    return client.post(path, json=body, headers={"Idempotency-Key": key, **headers})


def test_the_same_request_gets_the_same_answer_however_its_json_is_written(admin, service):
    first = post(admin, "/v1/revisions", REVISION)
    assert first.status_code == 201, first.text
    headers = {**KEY, "Content-Type": "application/json"}
    again = admin.post("/v1/revisions", content=b'{ "thresholds":[5000],\n"priorities": 2 }', headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert len(service.store.revisions()) == 1
    assert [note["action"] for note in admin.get("/v1/audit").json()].count("make-revision") == 1


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/revisions", {"priorities": 2, "thresholds": [6000]}),
        ("/v1/rollouts", {"revision": 1}),
        ("/v1/models", {"label": "default"}),
    ],
)
def test_another_request_with_the_same_key_is_refused_and_not_done(admin, service, path, body):
    post(admin, "/v1/revisions", REVISION)
    found = post(admin, path, body)
    assert found.status_code == 422
    assert found.json()["detail"] == (
        "Idempotency-Key 'k1': came with another request before, expected the same one again or a new key"
    )
    assert (len(service.store.revisions()), service.store.rollouts(), service.store.models()) == (1, [], [])


def test_a_key_belongs_to_who_asks(admin, service):
    post(admin, "/v1/revisions", REVISION)
    other = {"Authorization": f"Bearer {tokens.issue(service.store, 'other', Role.OPERATOR)}"}
    made = post(admin, "/v1/revisions", {"priorities": 2, "thresholds": [6000]}, **other)
    assert (made.status_code, made.json()["id"]) == (201, 2)


def test_a_refused_request_leaves_no_answer(admin):
    assert post(admin, "/v1/rollouts", {"revision": 1}).status_code == 404
    admin.post("/v1/revisions", json=REVISION)
    assert post(admin, "/v1/rollouts", {"revision": 1}).status_code == 202


def test_while_the_first_is_under_way_the_second_is_told_so(store):
    begun, end = threading.Event(), threading.Event()

    def make(keep):
        begun.set()
        assert end.wait(120)
        return keep({"done": 1})

    answers = []
    first = threading.Thread(target=lambda: answers.append(once(store, "me", "k", "this", make)))
    first.start()
    try:
        assert begun.wait(120)
        with pytest.raises(Exception, match="under way, ask again"):
            once(store, "me", "k", "this", make)
    finally:
        end.set()
        first.join()
    assert once(store, "me", "k", "this", lambda keep: pytest.fail("done twice")) == answers[0] == {"done": 1}


@pytest.mark.parametrize("path", ["/v1/revisions", "/v1/rollouts", "/v1/models"])
def test_what_can_not_be_remembered_is_not_done(admin, service, records, monkeypatch, path):
    """A crash before the answer is kept is one before the end of the transaction: nothing of it is in the file."""
    admin.post("/v1/revisions", json=REVISION)
    sent = [record.to_json() for record in records[:200]]
    admin.post("/v1/hosts/h1/records", json={"records": sent, "label": "seen"})
    body = {
        "/v1/revisions": REVISION,
        "/v1/rollouts": {"revision": 1},
        "/v1/models": {"label": "seen", "trees": 3, "depth": 4},
    }[path]

    def seen():
        store = service.store
        with store.reading() as connection:
            counted = [connection.scalar(text(f"select count(*) from {name}")) for name in ("answers", "audit")]
        return store.revisions(), store.models(), store.rollouts(), service.runner.running, counted

    before = seen()
    with monkeypatch.context() as broken:
        broken.setattr(service.store, "keep_answer", lambda *_: (_ for _ in ()).throw(StoreError("disk is full")))
        assert post(admin, path, body).status_code == 503
    assert seen() == before
    first = post(admin, path, body)
    assert first.is_success, first.text
    assert post(admin, path, body).json() == first.json()
    assert len(admin.get(path).json()) == {"/v1/revisions": 2, "/v1/rollouts": 1, "/v1/models": 1}[path]


def test_a_calls_part_in_a_transaction_is_undone_with_it_and_known_after_it(store):
    changes = store.changes
    with pytest.raises(RuntimeError), store.writing(cached=False):
        store.put_host("h1")
        raise RuntimeError
    assert (store.hosts(), store.changes) == ({}, changes)
    with store.writing(cached=False):
        store.put_host("h1")
        assert store.hosts() == {}, "others see it at its end"
    assert list(store.hosts()) == ["h1"]
    assert store.changes == changes + 1
    store.put_host("h2")
    assert list(store.hosts()) == ["h1", "h2"], "the next one is a transaction of its own"


def test_who_waits_too_long_for_a_turn_to_write_is_told_so_and_the_next_one_writes(store, monkeypatch):
    monkeypatch.setattr(database, "WAIT_S", 0.05)
    begun, end = threading.Event(), threading.Event()

    def hold():
        with store.writing():
            begun.set()
            assert end.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert begun.wait(120)
        with pytest.raises(StoreError, match="others have been writing for 0"):
            store.put_host("h1")
    finally:
        end.set()
        holder.join()
    assert store.put_host("h1")


def test_of_a_request_no_word_of_its_body_is_kept(admin, service):
    post(admin, "/v1/hosts/h1/records", {"records": [FLOW], "label": "a secret of sorts"})
    with service.store.reading() as connection:
        kept = str(connection.exec_driver_sql("select * from answers").all())
    answer = "'label': 'a secret of sorts', 'records': 1"
    assert (kept.count("secret"), kept.replace('"', "'").count(answer)) == (1, 1), "in the answer alone"
    assert "1000" not in kept


def test_other_flows_under_a_hosts_last_key_are_refused_and_not_counted(admin):
    assert post(admin, "/v1/hosts/h1/records", {"records": [FLOW]}).status_code == 202
    for other in (
        {"records": [{**FLOW, "size_bytes": 1001}]},
        {"records": [FLOW, FLOW]},
        {"records": [FLOW], "dropped": 1},
        {"records": [FLOW], "label": "mine"},
    ):
        found = post(admin, "/v1/hosts/h1/records", other)
        assert found.status_code == 422, other
        assert "came with another request before" in found.json()["detail"]
    assert admin.get("/v1/flows/statistics").json()["flows"] == 1
    assert post(admin, "/v1/hosts/h1/records", {"records": [FLOW]}).status_code == 202, "the first one still is known"


def test_a_delivery_is_the_same_in_another_form_with_another_policy_and_while_something_else_is_recorded(
    admin, records
):
    sent = records[:300]
    told = {"histogram": None, "dropped": 2, "unobserved": 0, "policy_generation": 0, "label": None}
    body = {**told, "records": [record.to_json() for record in sent]}
    first = post(admin, "/v1/hosts/h1/records", body)
    admin.put("/v1/recording", json={"label": "monday"})
    packed = encode_delivery({**told, "policy_generation": 7}, from_records(sent))
    again = admin.post("/v1/hosts/h1/records", content=packed, headers={**KEY, "Content-Type": MEDIA_TYPE})
    assert (again.status_code, again.json()) == (202, first.json())
    assert admin.get("/v1/flows/statistics").json()["flows"] == 300
    assert admin.get("/v1/hosts").json()[0]["policy_generation"] == 7


@pytest.mark.sqlite_only("makes an older version's row by a function of SQLite; PostgreSQL came after that version")
def test_of_a_delivery_that_an_older_version_took_the_key_is_enough(admin, service):
    post(admin, "/v1/hosts/h1/records", {"records": [FLOW]})
    with service.store.writing() as connection:
        changed = "update answers set body = json_remove(body, '$.asked')"
        assert connection.exec_driver_sql(changed).rowcount == 1
    service.intake._last.clear()
    assert post(admin, "/v1/hosts/h1/records", {"records": [FLOW, FLOW]}).status_code == 202
    assert admin.get("/v1/flows/statistics").json()["flows"] == 1


def test_a_hosts_last_delivery_is_known_however_long_it_was_away(admin, service, monkeypatch):
    """Its answer got lost; meanwhile a day went by, or the clock was wrong by one, and this process began anew."""
    post(admin, "/v1/hosts/h1/records", {"records": [FLOW]})
    post(admin, "/v1/revisions", REVISION)
    days_later = time.time() + 3 * 86_400
    with monkeypatch.context() as later:
        later.setattr(remembered.time, "time", lambda: days_later)
        post(admin, "/v1/revisions", REVISION, key="k2")
    service.intake._last.clear()
    assert post(admin, "/v1/hosts/h1/records", {"records": [FLOW]}).status_code == 202
    assert admin.get("/v1/flows/statistics").json()["flows"] == 1
    assert post(admin, "/v1/revisions", REVISION).json()["id"] == 3, "an operator's key is known for a day"
