"""What a host tells is believed up to what its link can have carried; nobody tells for others, or under labels."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.histogram import SizeHistogram, bucket_of
from qclimb.record import FlowRecord
from qclimb.record_rows import from_records

from hostlib.hostd.collected import FIRST_RECORDS
from orchestrator.ingest import recordings as recorded
from orchestrator.ingest.credible import PACKET_BYTES, SAVED_S, Allowance, believed, weights
from orchestrator.ingest.quota import RECORDS_LEAST
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role

RATE = 1000.0
"""Bytes a second."""
HONEST = SizeHistogram({bucket_of(2_800): 1000, bucket_of(145_000): 200, bucket_of(7_600_000): 30}, 259_800_000)


def allowed(left_bytes: float) -> Allowance:
    return Allowance(left_bytes, 0.0)


def test_what_the_link_can_have_carried_is_believed_whole():
    found = believed(HONEST, 7, allowed(260_000_000))
    assert (found.sizes, found.dropped, found.left_out) == (HONEST, 7, 0)
    assert 0 < found.allowance.left_bytes < 260_000_000


def test_of_what_goes_beyond_each_bucket_keeps_the_same_share():
    found = believed(HONEST, 1000, allowed(26_000_000))
    kept = found.sizes.counts
    assert all(kept[bucket] == pytest.approx(count / 10, rel=0.1, abs=1) for bucket, count in HONEST.counts.items())
    assert (found.left_out, found.dropped) == (HONEST.flows - found.sizes.flows, pytest.approx(100, rel=0.1))
    assert found.allowance.left_bytes == 0


def test_a_flow_costs_a_packet_at_least_and_flows_without_a_size_do_too():
    tiny = SizeHistogram({1: 10**18}, 10**18)
    assert believed(tiny, 0, allowed(PACKET_BYTES * 500)).sizes.flows == 500
    assert believed(SizeHistogram(), 10**18, allowed(PACKET_BYTES * 500)).dropped == 500


def test_the_sum_of_sizes_is_one_that_the_counts_can_have():
    for told in (10**6, 2**80):
        found = believed(SizeHistogram({bucket_of(1000): 10**6}, told), 0, allowed(1e12)).sizes
        assert found.total_bytes == pytest.approx(10**9, rel=0.03)


def test_a_large_flow_that_is_told_of_at_its_end_is_believed():
    """It took all of the link for an eighth of what is saved, in which nothing else could be told of."""
    size = int(RATE * SAVED_S / 8)
    allowance = Allowance(0.0, 0.0).after(RATE, SAVED_S / 8)
    assert believed(SizeHistogram.of([size]), 0, allowance).left_out == 0


def test_who_was_away_for_long_tells_of_all_that_time():
    assert Allowance(0.0, 0.0).after(RATE, 8 * 3600).left_bytes == RATE * 8 * 3600
    assert Allowance.at_first(RATE, 0.0, silent_s=8 * 3600).left_bytes == RATE * 8 * 3600


@given(steps=st.lists(st.tuples(st.floats(0, 10), st.integers(1, 10**19)), min_size=1, max_size=30))
def test_however_a_host_tells_no_more_is_believed_than_the_link_carries(steps):
    allowance, now, flows = Allowance.at_first(RATE, 0.0), 0.0, 0
    for pause_s, count in steps:
        now += pause_s
        found = believed(SizeHistogram({1: count}, count), 0, allowance.after(RATE, now))
        allowance, flows = found.allowance, flows + found.sizes.flows
    assert flows * PACKET_BYTES <= RATE * (SAVED_S + now) * (1 + 1e-9)


def test_hosts_far_above_the_median_weigh_less_and_others_do_not():
    assert weights({f"h{n}": 100 * n for n in range(1, 10)}) == {}
    assert weights({"h1": 0, "h2": 0, "h3": 5000}) == {}, "who has nothing to tell says nothing of others"
    assert weights({"h1": 90, "h2": 100, "h3": 110, "h4": 10**9}) == {"h4": 10 * 100 / 10**9}


def deliver(client, host: str, token: str | None = None, **body):
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return client.post(f"/v1/hosts/{host}/records", json=body, headers=headers)


def test_one_host_does_not_set_everybodys_thresholds(admin, service):
    hosts = [f"h{n}" for n in range(1, 21)]
    for host in hosts:
        admin.put(f"/v1/hosts/{host}")
        assert deliver(admin, host, histogram=HONEST.to_json()).status_code == 202

    def chosen():
        return admin.post("/v1/revisions", json={"priorities": 4}).json()

    honest = chosen()
    lie = {"gamma": 1.02, "counts": {"1": 2**64 - 1}, "total_bytes": 2**64}
    token = tokens.issue(service.store, "h1", Role.HOST)
    for _ in range(30):
        assert deliver(admin, "h1", token, histogram=lie, dropped=2**63 - 1).status_code == 202
    found = chosen()
    assert found["threshold_bytes"][0] >= honest["threshold_bytes"][0] / 2
    assert found["threshold_bytes"][-1] >= honest["threshold_bytes"][0]
    assert set(found["optimised"]["flow_weights"]) == {"h1"}
    assert "flow_weights" not in honest["optimised"]
    statistics = admin.get("/v1/flows/statistics").json()
    assert statistics["hosts"]["h1"] < 2 * SAVED_S * 100e9 / 8 / PACKET_BYTES
    state = admin.get("/v1/state").json()["flows_not_believed"]
    assert set(state) == {"h1"}
    assert state["h1"] > 10**19
    assert 'qclimb_flows_not_believed_total{host="h1"}' in admin.get("/metrics").text


def test_statistics_of_counts_that_nobody_can_have_are_answered(admin, service):
    """As an older version may have left them."""
    for _ in range(20):
        service.recordings.add("old", "h1", [], SizeHistogram({1: 2**64 - 1, 2000: 2**64 - 1}, 2**100), 0)
    service.recordings.add("large", "h1", [], SizeHistogram({1: 10**18}, 10**18), 0)
    for label in ("old", "large"):
        answer = admin.get(f"/v1/flows/statistics?label={label}")
        assert (answer.status_code, answer.json()["hosts"].keys()) == (200, {"h1"})
    assert admin.get("/v1/flows/statistics").status_code == 200
    assert admin.post("/v1/revisions", json={"priorities": 3}).status_code == 201


def test_labels_are_not_a_hosts_to_give(admin, service):
    token = tokens.issue(service.store, "h1", Role.HOST)
    answer = deliver(admin, "h1", token, label="mine", dropped=1)
    assert (answer.status_code, "PUT /v1/recording gives labels" in answer.text) == (403, True)
    assert admin.get("/v1/recording").json()["labels"] == []
    admin.put("/v1/recording", json={"label": "monday"})
    assert deliver(admin, "h1", token, dropped=1).json()["label"] == "monday"
    assert deliver(admin, "h1", token, label="monday", dropped=1).status_code == 202
    assert deliver(admin, "h1", label="imported", dropped=1).json()["label"] == "imported", "an admin may"


def test_there_are_no_more_labels_than_there_is_room_for(admin, monkeypatch):
    monkeypatch.setattr(recorded, "LABELS_MOST", 2)
    for label in ("a", "b"):
        assert deliver(admin, "h1", label=label, dropped=1).status_code == 202
    for answer in (deliver(admin, "h1", label="c", dropped=1), admin.put("/v1/recording", json={"label": "c"})):
        assert (answer.status_code, "there are 2 labels" in answer.text) == (409, True)
    assert admin.put("/v1/recording", json={"label": "b"}).status_code == 200
    assert admin.delete("/v1/flows?label=a").status_code == 204
    assert admin.delete("/v1/flows?label=a").status_code == 404
    assert admin.put("/v1/recording", json={"label": "c"}).status_code == 200
    assert deliver(admin, "h1", dropped=3).json()["label"] == "c"
    assert admin.get("/v1/recording").json()["labels"] == ["b", "c"]


def test_no_more_records_are_taken_of_a_host_than_it_was_told(admin, service):
    token = tokens.issue(service.store, "h1", Role.HOST)

    def send(count: int, key: str | None = None):
        rows = from_records([FlowRecord(start_ns=1, last_write_ns=1, size_bytes=5)] * count)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": MEDIA_TYPE}
        headers |= {} if key is None else {"Idempotency-Key": key}
        return admin.post("/v1/hosts/h1/records", content=encode_delivery({}, rows), headers=headers)

    answer = send(4097)
    assert (answer.status_code, "4097 in one delivery, expected at most 4096" in answer.text) == (413, True)
    service.intake._wanted["h1"] = (100, 60)
    assert send(101).status_code == 413
    assert send(0).status_code == 202
    service.intake._quota._records_per_s, service.intake._wanted["h1"] = 1, (60, 100)
    first = send(100, "k")
    assert (first.status_code, first.json()["next_records"]) == (202, RECORDS_LEAST)
    for _ in range(3):
        assert send(100, "k").json() == first.json(), "its answer may be lost again and again"
    service.intake._wanted["h1"] = (70, 60)
    assert "expected at most 70, by next_records" in send(71).text
    service.intake._wanted["h1"] = (RECORDS_LEAST, RECORDS_LEAST)
    assert send(FIRST_RECORDS + 1).status_code == 413
    assert send(FIRST_RECORDS).status_code == 202, "a hostd that was restarted remembers no answer"
    assert service.recordings.statistics(None).records.received == 100 + FIRST_RECORDS


def test_what_statistics_and_drift_take_does_not_grow_with_what_is_kept(service):
    rows = [FlowRecord(start_ns=1, last_write_ns=1, size_bytes=5)] * 4000
    service.recordings.max_records = 10**6
    for label in "abcdef":
        for _ in range(10):
            service.recordings.add(label, "h1", rows, None, 0)
    kept_bytes = 6 * 10 * 4000 * 84
    tracemalloc.start()
    found = service.recordings.statistics(None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.records.kept == 240_000
    assert most < kept_bytes / 2, f"{most} bytes for {kept_bytes}"


def test_a_host_has_few_deliveries_under_way_however_many_it_begins(admin, service):
    with service.intake.room_for("h1", 10), service.intake.room_for("h1", 10):
        answer = deliver(admin, "h1", dropped=1)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
        assert "2 of h1 are under way" in answer.text
        admin.put("/v1/hosts/h2")
        assert deliver(admin, "h2", dropped=1).status_code == 202
    assert deliver(admin, "h1", dropped=1).status_code == 202
