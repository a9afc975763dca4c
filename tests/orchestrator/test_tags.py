"""ETags and If-Match, pages, rates, and bodies that the document describes."""

import re
import time

import jsonschema
import pytest
from qclimb.histogram import SizeHistogram

from orchestrator.rest import tokens
from orchestrator.rest.rates import WINDOW_S, Rates
from orchestrator.rest.schemas import HISTOGRAM, RECORD
from orchestrator.rest.tokens import Role


def test_what_has_not_changed_is_not_sent_again(admin):
    for path in ("/v1/hosts", "/v1/hosts/h1", "/v1/recording", "/v1/rollouts", "/openapi.json"):
        first = admin.get(path)
        again = admin.get(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b""), path
        assert again.headers["etag"] == first.headers["etag"]
    etag = admin.get("/v1/hosts").headers["etag"]
    admin.put("/v1/hosts/h2")
    assert admin.get("/v1/hosts", headers={"If-None-Match": etag}).status_code == 200


def test_a_stale_if_match_changes_nothing(admin, service):
    put = admin.put("/v1/switches/s1", json={"address": "192.0.2.1:9339"})
    seen = admin.get("/v1/switches/s1").headers["etag"]
    assert put.headers["etag"] == seen
    moved = {"address": "192.0.2.2:9339"}
    assert admin.put("/v1/switches/s1", json=moved, headers={"If-Match": seen}).status_code == 200
    stale = admin.put("/v1/switches/s1", json={"address": "192.0.2.3:9339"}, headers={"If-Match": seen})
    assert stale.status_code == 412 and "read it again" in stale.json()["detail"]
    assert admin.delete("/v1/switches/s1", headers={"If-Match": seen}).status_code == 412
    assert service.store.switches()["s1"].address == "192.0.2.2:9339"
    assert admin.put("/v1/switches/s9", json=moved, headers={"If-Match": "*"}).status_code == 412  # it is not there
    assert "s9" not in service.store.switches()
    recording = admin.get("/v1/recording").headers["etag"]
    assert admin.put("/v1/recording", json={"label": "a"}, headers={"If-Match": recording}).status_code == 200
    assert admin.put("/v1/recording", json={"label": "b"}, headers={"If-Match": recording}).status_code == 412
    assert service.store.setting("recording") == "a"


def test_a_rollout_begins_only_where_the_policy_is_the_one_that_was_seen(admin, service):
    admin.post("/v1/revisions", json={"thresholds": [1000], "priorities": 2})
    refused = admin.post("/v1/rollouts", json={"revision": 1}, headers={"If-Match": '"7"'})
    assert refused.status_code == 412 and not service.store.rollouts()
    admin.post("/v1/rollouts", json={"revision": 1}).raise_for_status()
    while service.runner.running:
        admin.post("/v1/hosts/h1/records", json={"policy_generation": 1}).raise_for_status()
    etag = admin.get("/v1/hosts/h1/policy").headers["etag"]
    assert admin.post("/v1/rollouts", json={"revision": 1}, headers={"If-Match": etag}).status_code == 202


def test_a_list_comes_in_pages_that_lead_to_one_another(admin, service):
    for number in range(2, 8):
        service.store.put_host(f"h{number}")
    place, names = "/v1/hosts?limit=3", []
    while place:
        answer = admin.get(place)
        assert len(answer.json()) <= 3
        names += [each["name"] for each in answer.json()]
        place = answer.links.get("next", {}).get("url")
    assert names == [f"h{number}" for number in range(1, 8)]
    for _ in range(3):
        admin.post("/v1/revisions", json={"thresholds": [1000], "priorities": 2})
    assert [each["id"] for each in admin.get("/v1/revisions?after=1&limit=1").json()] == [2]
    assert admin.get("/v1/hosts?limit=0").json()["errors"][0]["field"] == "query.limit"


def test_who_asks_too_often_is_told_when_to_ask_again(admin, service):
    service.rates = Rates(requests=3, unknown=2)
    answers = [admin.get("/v1/state") for _ in range(5)]
    assert [each.status_code for each in answers].count(429) >= 1
    refused = next(each for each in answers if each.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 11
    other = {"Authorization": f"Bearer {tokens.issue(service.store, 'other', Role.VIEWER)}"}
    assert admin.get("/v1/state", headers=other).status_code == 200
    host = {"Authorization": f"Bearer {tokens.issue(service.store, 'h1', Role.HOST)}"}
    for _ in range(8):  # hosts are bounded otherwise
        assert admin.post("/v1/hosts/h1/records", json={}, headers=host).status_code == 202
    guess = {"Authorization": "Bearer qct_guess"}
    assert 429 in [admin.get("/v1/state", headers=guess).status_code for _ in range(5)]


def test_who_asked_too_often_is_told_to_wait_by_a_clock_that_nobody_sets(admin, service, monkeypatch):
    now_s = [0.0]
    service.rates = Rates(requests=1, unknown=1, clock=lambda: now_s[0])
    admin.get("/v1/state")
    for wall_s in (0.0, 1e6):
        monkeypatch.setattr(time, "time", lambda wall_s=wall_s: wall_s)
        refused = admin.get("/v1/state")
        assert (refused.status_code, 1 <= int(refused.headers["retry-after"]) <= WINDOW_S + 1) == (429, True)
    now_s[0] += WINDOW_S
    assert admin.get("/v1/state").status_code == 200


def test_a_host_that_delivers_is_not_silent_whatever_is_done_to_the_clock(admin, service, monkeypatch):
    admin.post("/v1/hosts/h1/records", json={"policy_generation": 0}).raise_for_status()
    real = time.time()
    for step_s in (-100_000, 100_000):
        monkeypatch.setattr(time, "time", lambda step_s=step_s: real + step_s)
        assert admin.get("/v1/overview").json()["hosts"]["silent"] == 0
        told = re.search(r'qclimb_host_silent_seconds\{host="h1"\} (\S+)', admin.get("/metrics").text)
        assert told and 0 <= float(told[1]) < 600


def test_the_document_knows_what_a_record_and_a_histogram_are(admin, records):
    kinds = (RECORD, HISTOGRAM)
    for kind in kinds:
        jsonschema.Draft202012Validator.check_schema(kind)
    for record in records[:50]:
        jsonschema.validate(record.to_json(), RECORD)
    jsonschema.validate(SizeHistogram.of([1, 5, 10**9]).to_json(), HISTOGRAM)
    for wrong in ({"size_bytes": 0}, {"mode": "fast"}, {"local_addr": 5}, {"unknown": 1}, {"last_size_bytes": [1]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**records[0].to_json(), **wrong}, RECORD)
        assert (
            admin.post("/v1/hosts/h1/records", json={"records": [{**records[0].to_json(), **wrong}]}).status_code == 422
        )
    body = admin.get("/openapi.json").json()["paths"]["/v1/hosts/{name}/records"]["post"]["requestBody"]["content"]
    told = body["application/json"]["schema"]["properties"]
    assert told["records"]["items"]["required"] == ["start_ns", "last_write_ns", "size_bytes"]
    assert "counts" in str(told["histogram"])
