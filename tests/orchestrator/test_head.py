"""HEAD at every path: GET's status and headers, and no body."""

import httpx
import pytest

from orchestrator.rest import tokens
from tests.orchestrator.served import served

OF_A_MOMENT = ("date", "etag", "content-length", "transfer-encoding")
"""Headers that may differ: /metrics counts, the overview has the time, no body has no chunks."""


@pytest.fixture
def client(service):
    token = tokens.issue(service.store, "root", tokens.Role.ADMIN)
    with served(service) as url, httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as found:
        found.put("/v1/hosts/h1").raise_for_status()
        yield found


def told(answer: httpx.Response) -> tuple[int, dict[str, str]]:
    return answer.status_code, {name: value for name, value in answer.headers.items() if name not in OF_A_MOMENT}


def test_head_is_answered_as_get_is_without_a_body(client):
    described = client.get("/openapi.json").json()["paths"]
    paths = [path for path, verbs in described.items() if "get" in verbs]
    assert len(paths) > 20
    for path in [*paths, "/", "/docs", "/page/dom.js", "/openapi.json", "/nowhere", "/v1/rollouts/1/pause"]:
        at = path.format(name="h1", number=1, generation=1, label="x")
        with client.stream("GET", at) as get:
            assert get.status_code != 405 or "pause" in path
        head = client.head(at)
        assert told(head) == told(get), path
        assert head.content == b""


def test_head_needs_a_token_where_get_does(client):
    del client.headers["Authorization"]
    assert [client.head(path).status_code for path in ("/v1/state", "/metrics", "/ready")] == [401, 401, 204]
