"""Refusals as problem details, what a path takes, and tokens that end."""

import sqlite3
import time

import pytest

from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.store.store import Store

KIND = "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "/v1/revisions", {"load": 1.2}, 422, "body.load"),
        ("POST", "/v1/revisions", {"thresholds": [5, 3], "priorities": 3}, 422, "body.thresholds[1]"),
        ("POST", "/v1/revisions", {"label": "never"}, 404, "body.label"),
        ("POST", "/v1/revisions", {"ecn_bytes": [9]}, 422, "body.ecn_bytes.1"),
        ("POST", "/v1/revisions", {"list[int]": [9]}, 422, "body.list[int]"),
        ("GET", "/v1/audit?last=0", None, 422, "query.last"),
        ("GET", "/v1/models/0", None, 422, "path.generation"),
        ("PUT", "/v1/switches/s1", {"address": "here"}, 422, "body.address"),
    ],
)
def test_a_refusal_names_the_field(admin, method, path, body, status, field):
    answer = admin.request(method, path, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (status, KIND), answer.text
    found = answer.json()
    assert found["status"] == status and found["title"] and found["type"] == "about:blank"
    assert field in [each["field"] for each in found["errors"]], found
    assert all(each["detail"] in found["detail"] for each in found["errors"])


def test_a_wrong_number_in_a_list_is_one_finding_though_the_field_may_be_a_word_too(admin):
    found = admin.post("/v1/revisions", json={"thresholds": [5, -1]}).json()
    assert [each["field"] for each in found["errors"]] == ["body.thresholds.1"]
    assert found["detail"].startswith("body.thresholds.1 is -1: ")


@pytest.mark.parametrize("content", [b"\xff\xfe{", b"[" * 100_000])
def test_a_body_that_can_not_be_read_is_said_with_what_is_expected(admin, content):
    answer = admin.post("/v1/revisions", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["detail"].startswith("body: can't be read, expected")) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("GET", "/v1/models/7", 404), ("POST", "/v1/rollouts/7/pause", 404)],
)
def test_a_refusal_that_is_of_no_field_names_none(admin, method, path, status):
    answer = admin.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, KIND)
    assert "errors" not in answer.json() and answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/switches/s1", {"GET", "PUT", "DELETE"}),
        ("/v1/rollouts", {"GET", "POST"}),
        ("/v1/flows", {"DELETE"}),
        ("/v1/recording", {"GET", "PUT"}),
    ],
)
def test_a_path_says_all_that_it_takes(admin, path, allowed):
    answer = admin.request("PATCH", path)
    assert (answer.status_code, answer.headers["content-type"]) == (405, KIND)
    assert {each.strip() for each in answer.headers["allow"].split(",")} == allowed
    assert "PATCH" in answer.json()["detail"]


def test_an_error_of_our_own_is_a_problem_that_tells_nothing_of_the_inside(admin, service, monkeypatch):
    def broken() -> None:
        raise RuntimeError("a secret place")

    monkeypatch.setattr(service.store, "switches", broken)
    admin._transport.raise_server_exceptions = False
    answer = admin.get("/v1/switches")
    assert (answer.status_code, answer.headers["content-type"]) == (500, KIND)
    assert "secret" not in answer.text


def test_a_token_ends_when_its_time_is_over(admin, service, monkeypatch):
    made = admin.post("/v1/tokens", json={"role": "viewer", "name": "eve", "expires_in_s": 60}).json()
    asks = {"Authorization": f"Bearer {made['token']}"}
    assert admin.get("/v1/state", headers=asks).status_code == 200
    now = time.time()
    assert now < made["expires_at"] <= now + 60
    monkeypatch.setattr(tokens.time, "time", lambda: now + 61)
    assert admin.get("/v1/state", headers=asks).status_code == 401
    assert tokens.identify(service.store, asks["Authorization"]) is None
    assert "eve" not in {each["name"] for each in admin.get("/v1/tokens").json()}


def test_tokens_are_listed_without_themselves(admin, service):
    token = admin.post("/v1/tokens", json={"role": "operator", "name": "adam"}).json()["token"]
    answer = admin.get("/v1/tokens")
    (found,) = (each for each in answer.json() if each["name"] == "adam")
    assert (found["role"], found["expires_at"]) == ("operator", None)
    assert token not in answer.text and tokens.digest(token) not in answer.text
    admin.delete("/v1/tokens/adam")
    assert "adam" not in admin.get("/v1/tokens").text
    for role in (Role.VIEWER, Role.OPERATOR, Role.HOST):
        asks = {"Authorization": f"Bearer {tokens.issue(service.store, 'h1', role)}"}
        assert admin.get("/v1/tokens", headers=asks).status_code == 403


def test_a_database_of_the_version_before_is_taken_over_with_its_tokens(tmp_path):
    file = tmp_path / "a.db"
    store = Store(f"sqlite:///{file}")
    token = tokens.issue(store, "root", Role.ADMIN)
    store.close()
    with sqlite3.connect(file) as older:
        older.execute("drop table alembic_version")
        older.execute("alter table tokens drop column expires_at")
        older.execute("update settings set value = '2' where key = 'schema_version'")
    store = Store(f"sqlite:///{file}")
    assert tokens.identify(store, f"Bearer {token}") == tokens.Caller("root", Role.ADMIN)
    store.close()
