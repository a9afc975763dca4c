"""A refusal costs little, whatever was sent: few errors are found, and the answer has a few KB."""

import json
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from qclimb.delivery import MEDIA_TYPE
from qclimb.record_rows import encode_rows, from_records

from orchestrator.rest.bodies import UNKNOWN_MOST
from orchestrator.rest.hosts import read_body
from orchestrator.rest.problems import ERRORS_MOST

ANSWER_BYTES_MOST = 16_384
MANY = 50_000

BODIES: dict[str, tuple[str, str, bytes]] = {
    "unknown fields": ("POST", "/v1/revisions", json.dumps({f"x{number}": 0 for number in range(MANY)}).encode()),
    "unknown fields of a field": (
        *("POST", "/v1/revisions"),
        json.dumps({"port": {f"x{number}": 0 for number in range(MANY)}}).encode(),
    ),
    "the same field again": ("POST", "/v1/revisions", b"{" + b",".join([b'"loda":1'] * MANY) + b"}"),
    "wrong items of a list": ("POST", "/v1/revisions", json.dumps({"thresholds": ["x"] * MANY}).encode()),
    "few wrong items": ("POST", "/v1/revisions", json.dumps({"ports": [[]] * 1000}).encode()),
    "wrong entries of a table": (
        *("POST", "/v1/revisions"),
        json.dumps({"weights": {f"s{number}": "x" for number in range(MANY)}}).encode(),
    ),
    "a long text": ("PUT", "/v1/switches/s1", json.dumps({"address": "x" * 1_000_000}).encode()),
    "a long name of a field": ("PUT", "/v1/switches/s1", json.dumps({"x" * 1_000_000: 0}).encode()),
    "text of wide escapes": ("PUT", "/v1/switches/s1", json.dumps({"\U000e0041" * 80_000: 0}).encode()),
    "a long number": ("POST", "/v1/revisions", b'{"priorities": ' + b"9" * 4_000 + b"}"),
    "a number that is too long": ("POST", "/v1/revisions", b'{"priorities": ' + b"9" * 500_000 + b"}"),
    "deep": ("POST", "/v1/revisions", b'{"load":' + b"[" * 900 + b"]" * 900 + b"}"),
    "deeper": ("POST", "/v1/revisions", b'{"load":' + b"[" * 400_000),
    "records that are none": ("POST", "/v1/hosts/h1/records", json.dumps({"records": [0] * MANY}).encode()),
    "records of unknown fields": (
        *("POST", "/v1/hosts/h1/records"),
        json.dumps({"records": [{f"x{number}": 0 for number in range(100)}] * 500}).encode(),
    ),
    "a delivery of unknown fields": (
        *("POST", "/v1/hosts/h1/records"),
        json.dumps({f"x{number}": 0 for number in range(MANY)}).encode(),
    ),
    "a histogram of anything": (
        *("POST", "/v1/hosts/h1/records"),
        json.dumps({"histogram": {f"x{number}": 0 for number in range(MANY)}}).encode(),
    ),
    "lengths that are none": ("POST", "/v1/hosts/h1/lengths", json.dumps({"lengths": [0] * MANY}).encode()),
    "a length of anything": (
        *("POST", "/v1/hosts/h1/lengths"),
        json.dumps({"lengths": [{"program": "x" * 900_000, "role": 1, "port": 1}]}).encode(),
    ),
    "a length with a long field": (
        *("POST", "/v1/hosts/h1/lengths"),
        json.dumps({"lengths": [{"x" * 900_000: 1}]}).encode(),
    ),
}


def check_short(answer, statuses: set[int], case: str) -> None:
    assert answer.status_code in statuses, f"{case}: {answer.text[:300]}"
    assert len(answer.content) <= ANSWER_BYTES_MOST, case
    found = answer.json()
    assert found["detail"].isprintable() and len(found.get("errors", ())) <= ERRORS_MOST, case


def test_a_refusal_names_a_few_errors_in_a_short_answer(admin):
    for case, (method, path, content) in BODIES.items():
        forms = {"application/json": content}
        if path.endswith("/records"):
            forms[MEDIA_TYPE] = content + b"\n" + encode_rows(from_records([]))
        for kind, sent in forms.items():
            answer = admin.request(method, path, content=sent, headers={"Content-Type": kind})
            check_short(answer, {400, 422}, f"{case} as {kind}")


def test_a_long_query_is_refused_in_a_short_answer(admin):
    for query in ("last=" + "9" * 40_000, "&".join(["last=x"] * 5_000), f"last={'%1b' * 10_000}"):
        check_short(admin.get(f"/v1/audit?{query}"), {422}, query[:20])
    check_short(admin.get(f"/v1/{'%e2%80%ae' * 7_000}"), {404}, "a long path")


def fields(schema: Any, at: str = "") -> Any:
    """Every list and every table of free keys in a schema, by where it stands."""
    if isinstance(schema, dict):
        if schema.get("type") == "array" or isinstance(schema.get("additionalProperties"), dict):
            yield at, schema
        for key, value in schema.items():
            yield from fields(value, f"{at}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from fields(value, f"{at}/{index}")


def test_every_list_and_table_of_a_body_says_how_long_it_may_be(admin):
    schemas = admin.get("/openapi.json").json()["components"]["schemas"]
    bodies = {name: schema for name, schema in schemas.items() if name.endswith("Body")}
    assert len(bodies) > 8
    for name, schema in bodies.items():
        for at, each in fields(schema):
            assert each.keys() & {"maxItems", "maxProperties"}, f"{name}{at}"


def test_pydantic_makes_no_error_for_each_unknown_field_of_a_delivery():
    with pytest.raises(RequestValidationError) as refusal:
        read_body(json.dumps({f"x{number}": 0 for number in range(MANY)}).encode())
    assert 0 < len(refusal.value.errors()) <= UNKNOWN_MOST
