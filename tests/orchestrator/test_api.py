"""The REST door over a real store, without TLS: what is done, kept and answered."""

import threading

import pytest
from fastapi.testclient import TestClient
from qclimb.hostfile import check_forest_file
from qclimb.policy import Policy
from qclimb.record import FlowRecord
from sqlalchemy import select

from orchestrator.errors import StoreError
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.store import tables
from tests.orchestrator.asking import FLOW, deliver, detail
from tests.waiting import wait_until


def test_records_are_filed_under_the_recording_or_their_own_label(admin):
    assert deliver(admin).json()["label"] == "default"
    admin.put("/v1/recording", json={"label": "monday"})
    assert deliver(admin).json()["label"] == "monday"
    assert deliver(admin, label="mine").json()["label"] == "mine"
    assert admin.put("/v1/recording", json={"label": None}).json()["labels"] == ["default", "mine", "monday"]
    assert deliver(admin).json()["label"] == "default"
    assert admin.get("/v1/flows/statistics", params={"label": "default"}).json()["flows"] == 2
    assert admin.get("/v1/flows/statistics").json()["flows"] == 4


def test_a_delivery_with_one_bad_record_is_refused_whole(admin):
    detail(deliver(admin, [FLOW, {**FLOW, "size_bytes": -1}]), 422)
    assert admin.get("/v1/flows/statistics").json()["flows"] == 0


def test_a_repeated_delivery_with_the_same_key_counts_once(admin):
    for _ in range(3):
        answer = admin.post("/v1/hosts/h1/records", json={"records": [FLOW]}, headers={"Idempotency-Key": "a7"})
        assert answer.status_code == 202
        told = answer.json()
        assert {name: told[name] for name in ("label", "records", "next_records")} == {
            "label": "default",
            "records": 1,
            "next_records": 4096,
        }
    assert admin.get("/v1/flows/statistics").json()["flows"] == 1


def test_of_a_hosts_deliveries_the_last_key_is_known_and_each_hosts_by_itself(admin):
    admin.put("/v1/hosts/h2", json={})
    for host, key in (("h1", "a"), ("h2", "a"), ("h1", "b"), ("h1", "b"), ("h2", "a")):
        answer = admin.post(f"/v1/hosts/{host}/records", json={"records": [FLOW]}, headers={"Idempotency-Key": key})
        assert answer.status_code == 202
    assert admin.get("/v1/flows/statistics").json()["flows"] == 3


def test_a_revision_carries_thresholds_policy_and_intent_and_stays_as_it_is(admin):
    deliver(admin, [{**FLOW, "size_bytes": size} for size in (100, 1000, 10_000, 100_000) for _ in range(5)])
    body = {"priorities": 3, "mode": "qclimb", "load": 0.7, "slack_bytes": 5000, "quickack": False, "optax": True}
    made = admin.post("/v1/revisions", json=body).json()
    assert len(made["threshold_bytes"]) == 2
    assert made["optimised"]["load"] == 0.7
    policy = Policy.from_json(made["policy"])
    assert policy.threshold_bytes == tuple(made["threshold_bytes"])
    assert (policy.mode, policy.slack_bytes, policy.quickack, policy.optax) == ("qclimb", 5000, False, True)
    classes = made["intent"]["qclimb:qclimb"]["classes"]["class"]
    assert [each["config"]["queue"] for each in classes] == [2, 1, 0]
    assert [each["config"]["dscp"] for each in classes] == list(policy.dscp)
    deliver(admin, [{**FLOW, "size_bytes": 7}] * 50)
    again = admin.get("/v1/revisions/1").json()
    assert again["threshold_bytes"] == made["threshold_bytes"]
    assert again["created_by"] == "root"


def test_a_rollout_ends_when_the_host_has_reported_and_the_policys_etag_is_its_generation(admin):
    revision = {"priorities": 2, "thresholds": [5000], "mode": "observe"}
    assert admin.post("/v1/revisions", json=revision).status_code == 201
    started = admin.post("/v1/rollouts", json={"revision": 1})
    assert started.status_code == 202
    number = started.json()["id"]
    policy = wait_for_policy(admin, number)
    assert policy.headers["ETag"] == f'"{number}"'
    asked = {"If-None-Match": policy.headers["ETag"]}
    assert admin.get("/v1/hosts/h1/policy", headers=asked).status_code == 304
    assert admin.get("/v1/hosts/h1/policy", headers={"If-None-Match": '"0"'}).status_code == 200
    assert admin.get(f"/v1/rollouts/{number}").json()["phase"] == "running"
    assert "is still running" in detail(admin.post("/v1/rollouts", json={"revision": 1}), 409)
    refused = {"waves": [0.5, 0.1]}, {"waves": [0]}, {"soak_s": -1}, {"absent_most": -1}
    for wrong in refused:
        assert next(iter(wrong)) in detail(admin.post("/v1/rollouts", json={"revision": 1, **wrong}), 422)
    assert "its policy is in force" in detail(admin.post(f"/v1/rollouts/{number}/abort"), 409)
    assert "ask" in detail(admin.post(f"/v1/rollouts/{number}/explode"), 422)
    assert "there is no 99" in detail(admin.post("/v1/rollouts/99/pause"), 404)
    (listed,) = admin.get("/v1/rollouts").json()
    assert (listed["switches"], listed["hosts"]) == ({}, {"waiting": 1})
    deliver(admin, [], policy_generation=number)
    found = admin.get(f"/v1/rollouts/{number}").json()
    assert (found["phase"], found["hosts"]["h1"]["phase"]) == ("done", "applied")
    state = admin.get("/v1/state").json()
    assert state["policy_generation"] == state["hosts"]["h1"]["policy_generation"] == number


def wait_for_policy(client: TestClient, generation: int):
    """The host's policy, once the rollout's thread has put it in force."""

    def active():
        answer = client.get("/v1/hosts/h1/policy")
        return answer if answer.status_code == 200 and answer.json()["generation"] == generation else None

    return wait_until(active, f"the policy of generation {generation} is in force")


def test_an_unreachable_switch_stops_the_rollout_before_any_host_hears_of_it(admin):
    admin.put("/v1/switches/l1", json={"address": "127.0.0.1:1"})
    admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5000]})
    number = admin.post("/v1/rollouts", json={"revision": 1}).json()["id"]

    wait_until(lambda: (admin.get(f"/v1/rollouts/{number}").json())["phase"] != "running", "the rollout ends")
    found = admin.get(f"/v1/rollouts/{number}").json()
    assert found["phase"] == "rolled-back"
    assert found["switches"]["l1"]["error"] == "switch l1 at 127.0.0.1:1: Connection refused"
    assert found["hosts"]["h1"]["phase"] == "pending"
    detail(admin.get("/v1/hosts/h1/policy"), 404)


@pytest.mark.parametrize(("kind", "device"), [("switches", "l1"), ("hosts", "h1")])
def test_a_device_is_forgotten_before_a_rollout_or_after_it_and_not_while_it_begins(
    admin, service, monkeypatch, kind, device
):
    admin.put("/v1/switches/l1", json={"address": "127.0.0.1:9"})
    admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5]})
    remove, started = service.store.remove_device, []

    def begin():
        started.append(admin.post("/v1/rollouts", json={"revision": 1}))

    def slowly(*place):
        threads.append(threading.Thread(target=begin))
        threads[0].start()
        threads[0].join(1)  # which begins now, if it does not wait
        remove(*place)

    threads: list[threading.Thread] = []
    monkeypatch.setattr(service.store, "remove_device", slowly)
    assert admin.delete(f"/v1/{kind}/{device}").status_code == 204
    threads[0].join(120)
    rollout = admin.get(f"/v1/rollouts/{started[0].json()['id']}").json()
    assert device not in rollout[kind]
    assert "internal" not in (rollout["error"] or "")


def test_a_model_is_trained_in_a_process_of_its_own_and_can_be_fetched(admin, records):
    deliver(admin, [record.to_json() for record in records[:400]], label="seen")
    made = admin.post("/v1/models", json={"label": "seen", "trees": 5, "depth": 6})
    assert made.status_code == 201, made.text
    generation = made.json()["generation"]
    report = made.json()["report"]
    assert report["rows"] == {"total": 400, "grow": 256, "calibrate": 64, "test": 80}
    forest = admin.get(f"/v1/models/{generation}/forest")
    assert forest.headers["content-type"] == "application/octet-stream"
    assert check_forest_file(forest.content) == generation
    assert admin.get(f"/v1/models/{generation}/onnx").content[:1] == b"\x08"  # protobuf: ir_version
    revision = {"priorities": 2, "thresholds": [5], "mode": "qclimb", "model": generation}
    assert admin.post("/v1/revisions", json=revision).json()["policy"]["model_generation"] == generation
    assert "is unknown" in detail(admin.post("/v1/models", json={"label": "seen", "features": ["port"]}), 422)


def test_a_model_that_was_damaged_in_the_store_is_not_rolled_out(admin, service, records):
    deliver(admin, [record.to_json() for record in records[:200]], label="seen")
    generation = admin.post("/v1/models", json={"label": "seen", "trees": 3, "depth": 4}).json()["generation"]
    revision = {"priorities": 2, "thresholds": [5], "mode": "qclimb", "model": generation}
    number = admin.post("/v1/revisions", json=revision).json()["id"]
    model = vars(service.store.model_files(generation))
    table = tables.models
    for column, content, reason in (
        ("forest", model["forest"][:-9] + b"x" + model["forest"][-8:], "crc32"),
        ("onnx", b"no model", "onnxruntime can't read"),
        ("onnx", model["onnx"].replace(b"forest_sha256", b"forest_sha257"), "metadata lack forest_sha256"),
    ):
        with service.store.writing() as connection:
            whole = {"forest": model["forest"], "onnx": model["onnx"], column: content}
            connection.execute(table.update().values(**whole))
        assert reason in detail(admin.post("/v1/rollouts", json={"revision": number}), 422)
    assert admin.get("/v1/rollouts").json() == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/switches/l2", {"address": "192.0.2.2:9339"}),
        ("DELETE", "/v1/switches/l1", None),
        ("PUT", "/v1/hosts/h2", None),
        ("DELETE", "/v1/hosts/h1", None),
        ("POST", "/v1/tokens", {"role": "viewer", "name": "eve"}),
        ("DELETE", "/v1/tokens/somebody", None),
        ("PUT", "/v1/recording", {"label": "monday"}),
    ],
)
def test_what_can_not_be_noted_is_not_done(admin, service, monkeypatch, method, path, body):
    tokens.issue(service.store, "somebody", Role.VIEWER)
    admin.put("/v1/switches/l1", json={"address": "192.0.2.1:9339"})

    def seen():
        with service.store.reading() as connection:
            tokens = connection.execute(select(tables.tokens.c.name, tables.tokens.c.revoked)).all()
        return service.store.switches(), service.store.hosts(), tokens, service.store.setting("recording")

    before = seen()
    with monkeypatch.context() as broken:
        broken.setattr(service.store, "note", lambda *_: (_ for _ in ()).throw(StoreError("disk is full")))
        detail(admin.request(method, path, json=body), 503)
    assert seen() == before
    assert admin.request(method, path, json=body).is_success
    assert seen() != before


def test_what_was_done_by_whom_is_in_the_audit_log_without_secrets(admin):
    token = admin.post("/v1/tokens", json={"role": "viewer", "name": "eve"}).json()["token"]
    notes = admin.get("/v1/audit").json()
    assert (notes[0]["actor"], notes[0]["action"], notes[0]["subject"]) == ("root", "make-token", "viewer eve")
    assert token not in str(notes)


def test_metrics_count_requests_by_route_and_flows_by_host(admin):
    deliver(admin, [FLOW, FLOW], dropped=3)
    text = admin.get("/metrics").text
    assert 'qclimb_flow_records_total{host="h1"} 2.0' in text
    assert 'qclimb_flow_records_dropped_total{host="h1"} 3.0' in text
    assert 'route="/v1/hosts/{name}/records",status="202"} 1.0' in text


def test_metrics_tell_of_the_devices_that_there_are(admin, service):
    admin.put("/v1/switches/l1", json={"address": "192.0.2.1:9339"})
    deliver(admin)
    gauges = ('qclimb_host_silent_seconds{host="h1"}', 'qclimb_switch_applied_generation{switch="l1"}')
    assert all(gauge in admin.get("/metrics").text for gauge in gauges)
    admin.delete("/v1/hosts/h1")
    admin.delete("/v1/switches/l1")
    assert not any(gauge in admin.get("/metrics").text for gauge in gauges)


def test_metrics_and_state_read_one_rollout_however_many_there_are(admin, service, monkeypatch):
    """Each holds what all its switches had before."""
    for phase in ("done", "rolled-back"):
        number = service.store.add_rollout(1, "root", {"error": None, "switches": {}, "hosts": {}})
        service.store.save_rollout(number, phase, {"error": None, "switches": {}, "hosts": {}})
    monkeypatch.setattr(service.store, "rollouts", lambda: pytest.fail("all were read"))
    assert 'qclimb_last_rollout_phase{phase="rolled-back"} 1.0' in admin.get("/metrics").text
    assert admin.get("/v1/state").json()["last_rollout"]["id"] == number


def test_records_survive_json_unchanged(admin, service, records):
    deliver(admin, [record.to_json() for record in records[:50]])
    rows, _ = service.recordings.rows("default")
    assert rows["size_bytes"].tolist() == [record.size_bytes for record in records[:50]]
    assert isinstance(records[0], FlowRecord)


def test_a_hosts_token_dies_with_its_host(admin, service):
    token = admin.post("/v1/tokens", json={"role": "host", "name": "h1"}).json()["token"]
    viewer = admin.post("/v1/tokens", json={"role": "viewer", "name": "h1"}).json()["token"]

    def asks(by: str, path: str) -> int:
        return int(admin.get(path, headers={"Authorization": f"Bearer {by}"}).status_code)

    assert asks(token, "/v1/hosts/h1/policy") == 404  # none is in force yet
    admin.delete("/v1/hosts/h1")
    admin.put("/v1/hosts/h1")  # the next one of this name is somebody else
    assert asks(token, "/v1/hosts/h1/policy") == 401
    assert asks(viewer, "/v1/hosts") == 200
    noted = [(note["action"], note["subject"]) for note in admin.get("/v1/audit").json()]
    assert ("delete-host", "h1, 1 tokens revoked") in noted
