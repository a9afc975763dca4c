"""Deliveries that share a transaction, and polls that are answered from memory."""

import asyncio
import shutil
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import httpx
import numpy as np
import pytest
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.histogram import SizeHistogram
from qclimb.policy import Mode, Policy
from qclimb.record import FlowRecord
from qclimb.record_rows import from_records
from sqlalchemy.exc import DataError

from orchestrator.errors import StoreError
from orchestrator.ingest import deliveries
from orchestrator.ingest.deliveries import IN_HAND_BYTES, Delivery, Intake
from orchestrator.ingest.recordings import Recordings, kept_of
from orchestrator.metrics import Metrics
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.store.store import Store
from tests.orchestrator.served import served
from tests.waiting import wait_until

KEPT = {"label": "a", "records": 1}


def delivery(host: str, *sizes: int, **more) -> Delivery:
    rows = kept_of([FlowRecord(start_ns=1, last_write_ns=1, size_bytes=size) for size in sizes])
    return Delivery(**{"host": host, "label": "a", "rows": rows, "sizes": SizeHistogram.of(sizes), **more})


@pytest.fixture
def intake(store) -> Intake:
    for host in ("h1", "h2", "h3"):
        store.put_host(host)
    return Intake(store, Recordings(store), Metrics(store), lambda host, generation: None)


def take_all(intake: Intake, sent) -> list:
    """The answers, but for how many records are wanted (test_quota.py)."""

    async def at_once():
        return await asyncio.gather(*map(intake.take, sent), return_exceptions=True)

    found = asyncio.run(at_once())
    return [
        {name: value for name, value in answer.items() if name != "next_records"}
        if isinstance(answer, dict)
        else answer
        for answer in found
    ]


@pytest.mark.sqlite_only("copies the database's file")
def test_what_is_acknowledged_is_in_the_file_and_not_in_this_process_alone(intake, store, tmp_path):
    sent = [delivery(f"h{1 + n % 3}", 100 + n, dropped=2, generation=n) for n in range(30)]
    assert take_all(intake, sent) == [KEPT] * 30
    (tmp_path / "killed").mkdir()
    for found in tmp_path.glob("store.db*"):  # what lies on the disk while the process still runs
        shutil.copy(found, tmp_path / "killed")
    other = Store(f"sqlite:///{tmp_path / 'killed' / 'store.db'}")
    found = Recordings(other).statistics("a")
    assert found.hosts == {"h1": 10, "h2": 10, "h3": 10}
    assert vars(found.records) == {"received": 30, "kept": 30, "aged_out": 0, "dropped_at_host": 60}
    assert sorted(Recordings(other).rows("a")[0]["size_bytes"].tolist()) == list(range(100, 130))
    assert [row.policy_generation for row in other.hosts().values()] == [27, 28, 29]


def test_one_key_counts_once_in_a_transaction_and_over_a_restart(intake, store):
    once = delivery("h1", 5, key="k")
    take_all(intake, [once, once, delivery("h2", 5, key="k")])
    take_all(intake, [once])
    again = Intake(store, Recordings(store), Metrics(store), lambda host, generation: None)
    assert take_all(again, [once]) == [KEPT]
    assert Recordings(store).statistics("a").hosts == {"h1": 1, "h2": 1}
    take_all(again, [delivery("h1", 6, key="next")])
    assert Recordings(store).statistics("a").hosts == {"h1": 2, "h2": 1}


def test_a_delivery_that_can_not_be_kept_takes_no_other_with_it(intake, store):
    broken = delivery("h2", 5, key="b", generation=2**63)  # databases have no such integer
    found = take_all(intake, [delivery("h1", 1), broken, delivery("h3", 2), delivery("h3", 3)])
    assert isinstance(found[1], (OverflowError, DataError))
    assert [found[n] for n in (0, 2, 3)] == [KEPT] * 3
    assert Recordings(store).statistics("a").hosts == {"h1": 1, "h3": 2}
    assert take_all(intake, [delivery("h2", 5, key="b")]) == [KEPT]
    assert Recordings(store).histogram("a").flows == 4


def test_a_full_disk_is_told_to_all_who_wait_and_nothing_of_them_is_counted_twice_afterwards(
    intake, store, monkeypatch
):
    sent = [delivery("h1", 1, key="a"), delivery("h2", 2, key="b"), delivery("h3", 3)]
    with monkeypatch.context() as broken:
        broken.setattr(store, "keep_deliveries", lambda *_: (_ for _ in ()).throw(StoreError("database: disk is full")))
        assert [str(found) for found in take_all(intake, sent)] == ["database: disk is full"] * 3
    take_all(intake, sent)
    assert Recordings(store).statistics("a").hosts == {"h1": 1, "h2": 1, "h3": 1}


def test_the_oldest_age_out_across_deliveries_of_one_transaction(store):
    recordings = Recordings(store, max_records=25)
    intake = Intake(store, recordings, Metrics(store), lambda host, generation: None)
    take_all(intake, [delivery(f"h{n % 2}", *[n + 1] * 10) for n in range(6)])
    assert np.unique(recordings.rows("a")[0]["size_bytes"]).tolist() == [5, 6]
    anew = Recordings(store, max_records=25)
    anew.add("a", "h0", [FlowRecord(start_ns=1, last_write_ns=1, size_bytes=9)] * 10, None, 0)
    assert np.unique(anew.rows("a")[0]["size_bytes"]).tolist() == [6, 9]
    found = anew.statistics("a")
    assert vars(found.records) == {"received": 70, "kept": 20, "aged_out": 50, "dropped_at_host": 0}
    assert found.flows == 70


def test_who_reports_is_told_after_its_flows_are_kept(store):
    store.put_host("h1")
    recordings, told = Recordings(store), []

    def reported(host: str, generation: int) -> None:
        told.append((host, generation, recordings.histogram("a").flows))
        raise RuntimeError("a rollout that can't be saved")

    intake = Intake(store, recordings, Metrics(store), reported)
    assert take_all(intake, [delivery("h1", 1, generation=7)]) == [KEPT]
    assert told == [("h1", 7, 1)]


def test_a_poll_is_answered_304_only_to_the_host_itself_and_while_all_is_as_it_was(admin, service):
    for generation in (1, 2):
        admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5000 * generation]})
    admin.post("/v1/rollouts", json={"revision": 1})

    def policy():
        return service.store.setting("policy")

    wait_until(lambda: policy() is not None, "a policy is in force")
    token = admin.post("/v1/tokens", json={"role": "host", "name": "h1"}).json()["token"]
    other = tokens.issue(service.store, "h2", Role.HOST)

    def poll(token: str = token, etag: str | None = '"1"') -> tuple[int, str | None]:
        asked = {"Authorization": f"Bearer {token}"} | ({} if etag is None else {"If-None-Match": etag})
        answer = admin.get("/v1/hosts/h1/policy", headers=asked)
        return answer.status_code, answer.headers.get("etag")

    assert poll() == (304, '"1"')
    assert poll(etag='W/"1"') == poll(etag='"9", "1"') == (304, '"1"')
    assert poll(etag=None) == poll(etag='"0"') == (200, '"1"')
    assert poll(token="qct_guess")[0] == 401
    assert poll(token=other)[0] == 403
    service.store.set_setting("policy", policy() | {"generation": 2})
    assert poll() == (200, '"2"')
    assert poll(etag='"2"') == (304, '"2"')
    service.store.remove_device("hosts", "h1")
    assert poll(etag='"2"')[0] == 404
    service.store.put_host("h1")
    assert poll(etag='"2"')[0] == 304
    service.store.revoke_tokens("h1")
    assert poll(etag='"2"')[0] == 401
    counted = admin.get("/metrics").text
    assert 'qclimb_requests_total{method="GET",route="/v1/hosts/{name}/policy",status="304"} 5.0' in counted


def test_packed_records_are_the_same_flows_as_json(admin, service, records):
    told = {"histogram": SizeHistogram.of([7]).to_json(), "dropped": 3, "policy_generation": 4}
    json_answer = admin.post(
        "/v1/hosts/h1/records", json={"records": [each.to_json() for each in records[:70]], **told}
    )
    assert MEDIA_TYPE in json_answer.headers["accept-post"]

    def packed(content: bytes, kind: str = MEDIA_TYPE):
        return admin.post("/v1/hosts/h1/records", content=content, headers={"Content-Type": kind})

    content = encode_delivery({**told, "label": "packed"}, from_records(records[:70]))
    assert packed(content, f"{MEDIA_TYPE}; v=1").json() == json_answer.json() | {"label": "packed"}
    assert np.array_equal(service.recordings.rows("packed")[0], service.recordings.rows("default")[0])
    found, same = (service.recordings.statistics(label) for label in ("packed", "default"))
    assert replace(found, label=None) == replace(same, label=None)

    impossible = from_records(records[:3]).copy()
    impossible["last_write_ns"][1] = 0
    for wrong, sentence in (
        (encode_delivery(told, impossible), "record 0 last_write_ns is 0, expected start_ns ="),
        (content[:-1], "expected 15144 for 70 records"),
        (b"{}", "no line end"),
        (b"{}\n", "at least 24"),
        (b'{"dropped": -1}' + content[content.index(b"\n") :], "body.dropped"),
        (b'{"records": [{}]}' + content[content.index(b"\n") :], "records"),
        (content.replace(b"QCR1", b"QCR2"), "expected 0x31524351 (QCR1)"),
    ):
        answer = packed(wrong)
        assert (answer.status_code, sentence in answer.json()["detail"]) == (422, True), answer.text


def test_whatever_is_written_elsewhere_is_seen_by_the_next_poll(service, store):
    known = service.cache
    assert (known.policy, known.label, known.has_host("h1"), known.caller("Bearer qct_x")) == (None, None, False, None)
    store.put_host("h1")
    store.set_setting("recording", "monday")
    policy = Policy(3, Mode.PIAS, (5000,), (47, 43), slack_bytes=0)
    number = store.add_rollout(1, "root", {})
    store.activate(policy.to_json(), number, "done", {})
    token = tokens.issue(store, "h1", Role.HOST)
    assert known.has_host("h1")
    assert known.label == "monday"
    assert known.policy is not None
    assert known.policy.etag == '"3"'
    assert known.caller(f"Bearer {token}") == tokens.Caller("h1", Role.HOST)


def test_deliveries_beyond_the_room_for_them_are_refused_unread_and_may_come_again(admin, service):
    content = encode_delivery({"dropped": 3}, from_records([FlowRecord(start_ns=1, last_write_ns=1, size_bytes=5)]))

    def post():
        headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": "k"}
        return admin.post("/v1/hosts/h1/records", content=content, headers=headers)

    with service.intake.room_for("h9", IN_HAND_BYTES):
        answer = post()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        assert "64 MiB of them wait" in answer.json()["detail"]
    assert post().status_code == 202
    assert service.recordings.statistics(None).records.received == 1
    with service.intake.room_for("h9", IN_HAND_BYTES * 2):  # one alone is taken, however large
        pass
    with service.intake.room_for("h9", IN_HAND_BYTES - len(content)):
        assert post().status_code == 202
    assert vars(service.recordings.statistics(None).records) == {
        "received": 1, "kept": 1, "aged_out": 0, "dropped_at_host": 3,
    }  # fmt: skip


def test_under_overload_what_is_acknowledged_is_counted_once_and_what_is_refused_comes_again(service, monkeypatch):
    """Eight hosts, and room for hardly more than one delivery; each comes again under its key, as hostd does."""
    monkeypatch.setattr(deliveries, "IN_HAND_BYTES", 3000)
    names, refused = [f"h{number}" for number in range(8)], Counter[str]()
    rows = from_records([FlowRecord(start_ns=1, last_write_ns=1, size_bytes=5)] * 20)
    content = encode_delivery({"histogram": SizeHistogram.of([5] * 20).to_json()}, rows)
    issued = {}
    for name in names:
        service.store.put_host(name)
        issued[name] = tokens.issue(service.store, name, Role.HOST)

    def deliver(url: str, name: str) -> int:
        taken = 0
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {issued[name]}"}, timeout=120) as client:
            while taken < 3:
                headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": f"{name}-{taken}"}
                answer = client.post(f"/v1/hosts/{name}/records", content=content, headers=headers)
                if answer.status_code == 503:
                    assert int(answer.headers["retry-after"]) >= 1
                    refused[name] += 1
                    time.sleep(0.02)
                else:
                    assert answer.status_code == 202, answer.text
                    taken += 1
        return taken

    with served(service) as url, ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(partial(deliver, url), names)) == [3] * len(names)
    assert refused.total() > 0
    assert service.recordings.statistics(None).hosts == dict.fromkeys(names, 60)
