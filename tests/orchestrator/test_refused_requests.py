"""The REST door over a real store, without TLS: what is refused, with which sentence, and that it changes nothing."""

import asyncio
import json

import anyio
import httpx
import pytest
from fastapi.testclient import TestClient

from orchestrator.rest.tokens import Role
from tests.orchestrator.asking import FLOW, as_role, deliver, detail


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
        ("POST", "/v1/revisions", {"priorities": True}, "body.priorities is true"),
        ("POST", "/v1/revisions", {"load": 1}, "body.load is 1"),
        ("POST", "/v1/revisions", {"mode": "fast"}, "body.mode is 'fast'"),
        ("POST", "/v1/revisions", {}, "no flows recorded"),
        ("POST", "/v1/revisions", {"priorities": 3, "thresholds": [5]}, "threshold_bytes has 1 values, expected 2"),
        ("POST", "/v1/revisions", {"priorities": 3, "thresholds": [5, 5]}, "threshold_bytes[1] is 5"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "queues": [0, 1]}, "class 1 queue is 1"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "queues": [1]}, "queues has 1 entries"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "ports": ["a b"]}, "ports[0] is 'a b'"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "ecn_bytes": [9, 3]}, "ecn_min_bytes is 9"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "dynamic_th": [8, None]}, "dynamic_th"),
        ("POST", "/v1/revisions", {"priorities": 2, "thresholds": [5], "ecn_bytes": [9, 2**31]}, "ecn_bytes"),
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
        (
            "POST",
            "/v1/hosts/h1/records",
            b"{",
            None,
            "body is no JSON: Expecting property name enclosed in double quotes at",
        ),
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
