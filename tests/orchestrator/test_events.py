"""Server-sent events and the documentation page, over a real server on loopback: a test client can't stream."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from orchestrator.rest import events, tokens
from tests.orchestrator.served import served
from tests.waiting import wait_until


@pytest.fixture
def door(service) -> Iterator[httpx.Client]:
    with served(service) as url, httpx.Client(base_url=url, timeout=20) as client:
        yield client


@pytest.fixture
def root(door, service) -> httpx.Client:
    door.headers["Authorization"] = f"Bearer {tokens.issue(service.store, 'root', tokens.Role.ADMIN)}"
    door.put("/v1/hosts/h1")
    return door


def told(answer: httpx.Response) -> Iterator[tuple[str, dict]]:
    """Events as (name, data)."""
    name = ""
    for line in answer.iter_lines():
        kind, _, value = line.partition(": ")
        if kind == "event":
            name = value
        elif kind == "data":
            yield name, json.loads(value)


def test_a_rollout_tells_how_far_it_is_until_it_ends(root):
    root.post("/v1/revisions", json={"thresholds": [1000], "priorities": 2}).raise_for_status()
    number = root.post("/v1/rollouts", json={"revision": 1}).json()["id"]
    with root.stream("GET", f"/v1/rollouts/{number}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = told(answer)
        assert next(found)[1]["phase"] == "running"
        root.post("/v1/hosts/h1/records", json={"policy_generation": 1}).raise_for_status()
        rest = list(found)
    name, last = rest[-1]
    assert (name, last["id"], last["phase"], last["hosts"]) == ("rollout", number, "done", {"applied": 1})
    with root.stream("GET", f"/v1/rollouts/{number}/events") as answer:  # of one that has ended: how it did
        assert [each["phase"] for _, each in told(answer)] == ["done"]
    assert root.get("/v1/rollouts/9/events").status_code == 404


def test_the_fabric_tells_what_changes(root):
    with root.stream("GET", "/v1/events") as answer:
        found = told(answer)
        name, first = next(found)
        assert (name, first["policy_generation"], first["rollout"]) == ("fabric", 0, None)
        root.put("/v1/hosts/h2").raise_for_status()
        assert next(found)[1]["changes"] > first["changes"]


@contextmanager
def listening(url: str, token: str) -> Iterator[httpx.Response]:
    """A stream of /v1/events whose first event has come, or its refusal."""
    headers = {"Authorization": f"Bearer {token}"}
    with (
        httpx.Client(base_url=url, headers=headers, timeout=20) as client,
        client.stream("GET", "/v1/events") as answer,
    ):
        content = answer.iter_raw()  # kept: httpx closes a stream whose iterator is gone
        next(content)
        yield answer


def test_one_token_takes_no_more_streams_than_are_its_own_and_others_have_room(root, service):
    token = tokens.issue(service.store, "eve", tokens.Role.VIEWER)
    url = str(root.base_url)
    with ExitStack() as stack:
        for _ in range(events.STREAMS_OF_ONE):
            assert stack.enter_context(listening(url, token)).status_code == 200
        refused = stack.enter_context(listening(url, token))
        assert (refused.status_code, refused.headers.get("retry-after")) == (429, str(events.RETRY_AFTER_S))
        other = tokens.issue(service.store, "adam", tokens.Role.VIEWER)
        assert stack.enter_context(listening(url, other)).status_code == 200
    until_there_is_room(url, token)


def test_no_more_streams_are_open_than_there_is_room_for(root, service, monkeypatch):
    monkeypatch.setattr(events, "STREAMS_MOST", 1)
    url, token = str(root.base_url), root.headers["Authorization"].removeprefix("Bearer ")
    with listening(url, token), listening(url, token) as refused:
        assert (refused.status_code, refused.headers["retry-after"]) == (503, str(events.RETRY_AFTER_S))
    until_there_is_room(url, token)
    root.get("/v1/rollouts/9/events")  # refused once it had its room
    wait_until(lambda: root.head("/v1/events").status_code == 200, "the refused one's room is there again")
    until_there_is_room(url, token)


def until_there_is_room(url: str, token: str) -> None:
    """The server notices at its next look that nobody listens."""

    def is_answered() -> bool:
        with listening(url, token) as answer:
            return bool(answer.status_code == 200)

    wait_until(is_answered, "a stream that was closed takes up no room")


def test_streams_ask_for_a_token(door):
    assert door.get("/v1/events").status_code == 401


def test_the_documentation_page_needs_no_other_machine(door):
    page = door.get("/docs")
    assert page.status_code == 200
    needed = re.findall(r"(?:src|href)=[\"']([^\"']+)", page.text)
    assert len(needed) >= 3
    for place in needed:
        assert place.startswith("/") and not place.startswith("//"), place
        assert door.get(place).status_code == 200, place
    assert "/openapi.json" in page.text and "http://" not in page.text and "https://" not in page.text
