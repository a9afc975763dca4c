"""The REST door over a real store, without TLS: what is answered, and what is refused with which sentence."""

import asyncio
import errno
import json
import threading
import time

import anyio
import httpx
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

FLOW = {"start_ns": 1, "last_write_ns": 5, "size_bytes": 1000}


def detail(answer, status: int) -> str:
    assert answer.status_code == status, answer.text
    found = answer.json()["detail"]
    assert isinstance(found, str)
    return found


def deliver(client: TestClient, records=(FLOW,), **body):
    return client.post("/v1/hosts/h1/records", json={"records": list(records), **body})


def as_role(client: TestClient, service, role: Role, name: str = "somebody") -> TestClient:
    client.headers["Authorization"] = f"Bearer {tokens.issue(service.store, name, role)}"
    return client


# what is refused


def test_without_a_token_nothing_is_shown(anonymous):
    for path in ("/v1/switches", "/v1/state", "/metrics", "/v1/flows/statistics", "/v1/models/1/forest"):
        answer = anonymous.get(path)
        assert "Authorization" in detail(answer, 401)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert anonymous.get("/healthz").status_code == 204
    anonymous.headers["Authorization"] = "Bearer qct_guess"
    detail(anonymous.get("/v1/state"), 401)


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        (Role.VIEWER, "GET", "/v1/state", 200),
        (Role.VIEWER, "PUT", "/v1/recording", 403),
        (Role.VIEWER, "POST", "/v1/rollouts", 403),
        (Role.HOST, "GET", "/v1/state", 403),
        (Role.HOST, "GET", "/v1/models/1/forest", 404),
        (Role.OPERATOR, "PUT", "/v1/recording", 200),
        (Role.OPERATOR, "POST", "/v1/tokens", 403),
        (Role.OPERATOR, "PUT", "/v1/switches/l1", 403),
        (Role.OPERATOR, "GET", "/v1/hosts/h1/policy", 403),
    ],
)
def test_roles_reach_as_far_as_they_say(anonymous, service, role, method, path, status):
    bodies = {
        "/v1/recording": {"label": None},
        "/v1/rollouts": {"revision": 1},
        "/v1/tokens": {"role": "admin", "name": "me"},
        "/v1/switches/l1": {"address": "192.0.2.1:9339"},
    }
    client = as_role(anonymous, service, role)
    assert client.request(method, path, json=bodies.get(path)).status_code == status


def test_a_hosts_token_acts_for_that_host_alone(admin, service):
    admin.put("/v1/hosts/h2")
    token = admin.post("/v1/tokens", json={"role": "host", "name": "h1"}).json()["token"]
    admin.headers["Authorization"] = f"Bearer {token}"
    assert deliver(admin).status_code == 202
    assert "h1' alone" in detail(admin.post("/v1/hosts/h2/records", json={}), 403)


def test_a_revoked_token_is_worth_nothing(admin):
    token = admin.post("/v1/tokens", json={"role": "viewer", "name": "gone"}).json()["token"]
    assert admin.delete("/v1/tokens/gone").json() == {"revoked": 1}
    detail(admin.get("/v1/state", headers={"Authorization": f"Bearer {token}"}), 401)


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("PUT", "/v1/switches/l1", {"address": "192.0.2.1:9339", "adress": 1}, "body.adress: unknown field"),
        ("PUT", "/v1/switches/l1", {"address": "192.0.2.1"}, "body.address is '192.0.2.1'"),
        ("PUT", "/v1/switches/l1", {"address": "192.0.2.1:70000"}, "body.address"),
        ("PUT", "/v1/switches/l1", {"address": "192.0.2.1:9339", "role": "core"}, "body.role is 'core'"),
        ("PUT", "/v1/switches/l1", {}, "body.address: is missing"),
        ("PUT", "/v1/hosts/-x", {}, "path.name is '-x'"),
        ("POST", "/v1/tokens", {"role": "root", "name": "x"}, "body.role is 'root'"),
        ("POST", "/v1/hosts/h1/records", {"records": [{**FLOW, "size_bytes": 0}]}, "size_bytes is 0"),
        ("POST", "/v1/hosts/h1/records", {"records": [{**FLOW, "size_byte": 0}]}, "did you mean 'size_bytes'"),
        ("POST", "/v1/hosts/h1/records", {"histogram": {"gamma": 1.5}}, "gamma is 1.5"),
        ("POST", "/v1/hosts/h1/records", {"policy_generation": -1}, "body.policy_generation is -1"),
        ("POST", "/v1/revisions", {"priorities": 65}, "body.priorities is 65"),
        ("POST", "/v1/revisions", {"priorities": 9, "thresholds": [*range(1, 9)]}, "priorities is 9, expected 1..8"),
        ("POST", "/v1/revisions", {"priorities": True}, "body.priorities is True"),
        ("POST", "/v1/revisions", {"load": 1}, "body.load is 1"),
        ("POST", "/v1/revisions", {"mode": "fast"}, "body.mode is 'fast'"),
        ("POST", "/v1/revisions", {}, "no flows recorded"),
        ("POST", "/v1/revisions", {"priorities": 3, "thresholds": [5]}, "threshold_bytes has 1 values, expected 2"),
        ("POST", "/v1/revisions", {"priorities": 3, "thresholds": [5, 5]}, "threshold_bytes[1] is 5"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "queues": [0, 1]}, "class 1 queue is 1"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "queues": [1]}, "queues has 1 entries"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "ports": ["a b"]}, "ports[0] is 'a b'"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "ecn_bytes": [9, 3]}, "ecn_min_bytes is 9"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "dynamic_th": [9, None]}, "dynamic_th"),
        (
            *("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "dynamic_th": [0]}),
            "dynamic_th has 1 values, expected 2, one a queue",
        ),
        ("POST", "/v1/models", {"label": "x", "trees": 0}, "body.trees is 0"),
        ("PUT", "/v1/recording", {}, "body.label: is missing"),
        ("PUT", "/v1/recording", {"label": ""}, "body.label"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(admin, service, method, path, body, named):
    before = (service.store.switches(), service.store.revisions(), service.recordings.labels())
    assert named in detail(admin.request(method, path, json=body), 422)
    assert (service.store.switches(), service.store.revisions(), service.recordings.labels()) == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/hosts/h9/records", {}),
        ("GET", "/v1/hosts/h9/policy", None),
        ("GET", "/v1/hosts/h1/policy", None),
        ("GET", "/v1/rollouts/1", None),
        ("GET", "/v1/revisions/1", None),
        ("GET", "/v1/models/1", None),
        ("POST", "/v1/rollouts", {"revision": 1}),
        ("POST", "/v1/models", {"label": "never"}),
        ("POST", "/v1/revisions", {"label": "never"}),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "model": 7}),
        ("GET", "/v1/flows/statistics?label=never", None),
        ("DELETE", "/v1/switches/l9", None),
    ],
)
def test_what_is_not_there_is_said_to_be_missing(admin, method, path, body):
    detail(admin.request(method, path, json=body), 404)


@pytest.mark.parametrize(
    ("method", "path", "content", "kind", "sentence"),
    [
        ("POST", "/v1/revisions", b"{", None, "body is no JSON: Expecting property name enclosed in double quotes at"),
        ("POST", "/v1/hosts/h1/records", b"{", None, "body is no JSON: EOF while parsing an object at line 1 column 1"),
        ("POST", "/v1/revisions", b"{}", "text/plain", "Content-Type is 'text/plain', expected 'application/json'"),
        ("GET", "/v1/hosts/-/policy", b"", None, "path.name is '-': String should match pattern"),
    ],
)
def test_what_can_not_be_read_is_said_in_one_sentence(admin, method, path, content, kind, sentence):
    headers = {"Content-Type": kind or "application/json"}
    found = detail(admin.request(method, path, content=content, headers=headers), 422)
    assert found.startswith(sentence)
    assert found.count(sentence) == 1


def asked(client: TestClient, path: str, pieces: list[bytes], length: int | None) -> tuple[int, str, int]:
    """Status, detail, and how many pieces of the body were read, of a POST whose client then goes away."""
    sent: list[dict] = []
    left = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]

    async def receive():
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"authorization", client.headers["Authorization"].encode())]
    headers += [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "scheme": "http"}
    asyncio.run(client.app(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])["detail"], len(pieces) - len(left)


@pytest.mark.parametrize(
    ("path", "most", "untold"), [("/v1/revisions", 1 << 20, 1 << 20), ("/v1/hosts/h1/records", 8 << 20, 4 << 20)]
)
def test_a_body_longer_than_there_is_need_of_is_not_read_to_its_end(admin, path, most, untold):
    pieces = [bytes(1 << 19)] * 130
    assert asked(admin, path, pieces, most + 1) == (413, f"body: has {most + 1} bytes, expected at most {most}", 0)
    more = f"body: has more than {untold} bytes, expected no more"
    assert asked(admin, path, pieces, None) == (413, more, (untold >> 19) + 1)


def test_hosts_and_the_health_check_are_answered_whatever_keeps_all_threads(admin):
    """As where others write to the database, and operators' requests wait."""
    statuses = []

    async def ask():
        threads = anyio.to_thread.current_default_thread_limiter()
        threads.total_tokens = 1
        await threads.acquire_on_behalf_of(object())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(admin.app), base_url="http://a") as client:
            for path in ("/healthz", "/v1/hosts/h1/policy", "/v1/hosts/h9/policy"):
                headers = {"Authorization": admin.headers["Authorization"]}
                statuses.append((await asyncio.wait_for(client.get(path, headers=headers), 60)).status_code)
            statuses.append(
                (await client.post("/v1/hosts/h1/records", json={"dropped": -1}, headers=headers)).status_code
            )

    asyncio.run(ask())
    assert statuses == [204, 404, 404, 422]


@pytest.mark.parametrize("path", ["/v1/revisions", "/v1/hosts/h1/records"])
def test_a_body_that_is_cut_is_nobodys_fault_here_and_leaves_its_room(admin, service, path):
    status, sentence, _ = asked(admin, path, [b"{"], 1000)
    assert (status, "body" in sentence) == (400, True)
    assert service.intake._in_hand_bytes == 0
    assert 'status="500"' not in admin.get("/metrics").text


# what works


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

    end = time.monotonic() + 120
    while time.monotonic() < end:
        answer = client.get("/v1/hosts/h1/policy")
        if answer.status_code == 200 and answer.json()["generation"] == generation:
            return answer
        time.sleep(0.01)
    pytest.fail(f"policy of generation {generation} did not come into force: {answer.text}")


def test_an_unreachable_switch_stops_the_rollout_before_any_host_hears_of_it(admin):
    admin.put("/v1/switches/l1", json={"address": "127.0.0.1:1"})
    admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5000]})
    number = admin.post("/v1/rollouts", json={"revision": 1}).json()["id"]

    end = time.monotonic() + 120
    while (found := admin.get(f"/v1/rollouts/{number}").json())["phase"] == "running" and time.monotonic() < end:
        time.sleep(0.01)
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


@pytest.mark.parametrize("fails", ["add_token", "fsync", "rename"])
def test_a_first_start_that_is_cut_is_simply_made_again(store, tmp_path, monkeypatch, fails):
    """An error stands for a kill at the same place, too: there is no first token before both have it."""
    file = tmp_path / "token"
    place = {"add_token": store, "fsync": tokens.os, "rename": type(file)}[fails]
    with monkeypatch.context() as broken:
        broken.setattr(place, fails, lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(StoreError, match="No space left on device, expected a place for the first admin token"):
            tokens.bootstrap(store, file)
    assert [found.name for found in tmp_path.iterdir() if "token" in found.name] == []
    (tmp_path / ".token.new").write_text("what a kill left")
    assert tokens.bootstrap(store, file)
    assert (file.stat().st_mode & 0o777, (tmp_path / ".token.new").exists()) == (0o600, False)
    found = tokens.identify(store, f"Bearer {file.read_text().strip()}")
    assert found is not None
    assert found.role is Role.ADMIN
    assert not tokens.bootstrap(store, file)


def test_a_first_start_that_was_killed_once_the_store_had_the_token_is_finished(store, tmp_path):
    file = tmp_path / "token"
    assert tokens.bootstrap(store, file)
    file.rename(tmp_path / ".token.new")  # as if killed before the last step
    assert not tokens.bootstrap(store, file)
    assert tokens.identify(store, f"Bearer {file.read_text().strip()}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.ADMIN]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_first_start_whose_database_gave_no_answer_is_made_again_whether_or_not_it_has_the_token(
    store, tmp_path, monkeypatch, is_kept
):
    file, add = tmp_path / "token", store.add_token

    def cut(*values):
        if is_kept:
            add(*values)
        raise StoreError("the connection is lost")

    with monkeypatch.context() as broken:
        broken.setattr(store, "add_token", cut)
        with pytest.raises(StoreError, match="the connection is lost"):
            tokens.bootstrap(store, file)
    assert tokens.bootstrap(store, file) is not is_kept
    assert tokens.identify(store, f"Bearer {file.read_text().strip()}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.ADMIN]
    assert not (tmp_path / ".token.new").exists()


def test_a_first_token_that_gets_no_file_takes_no_other_of_its_name_along(store, tmp_path, monkeypatch):
    theirs = tokens.issue(store, "bootstrap", Role.VIEWER)
    with monkeypatch.context() as broken:
        broken.setattr(type(tmp_path), "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
        with pytest.raises(StoreError, match="I/O error"):
            tokens.bootstrap(store, tmp_path / "token")
    assert tokens.identify(store, f"Bearer {theirs}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.VIEWER]


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
