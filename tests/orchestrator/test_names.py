"""Text from hosts, switches and operators that can't be kept, sent or printed: refused, or shown as what it is."""

import json
import logging
from typing import Any

import grpc
import pytest
from qclimb.errors import LengthError
from qclimb.lengths import Announced, LengthRule, Score, Service, Use
from qclimb.options import Refused
from qclimb.text import check_printable

from orchestrator import logs
from orchestrator.fabric.session import _json, reason_of
from orchestrator.ingest.lengths import KEY, Lengths
from orchestrator.operate import show
from orchestrator.plan.lengths import Fabric
from tests.orchestrator.asking import FLOW

BAD = ["\ud800", "\0", "\x1b", "\n", "\x7f", "\x9b", "\u202e", "\u2066", "\u061c", "\u2028", "\u200b"]


def length_of(program: str) -> dict[str, Any]:
    found = Announced(Service("java", 1, 9092), LengthRule(0, 4), Use.IN_FORCE, Score(100)).to_json()
    return {**found, "program": program}


def as_json(value: Any) -> dict[str, Any]:
    """What `request` takes: json.dumps escapes what UTF-8 has not."""
    return {"content": json.dumps(value).encode(), "headers": {"Content-Type": "application/json"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/hosts/h1/lengths", lambda bad: {"lengths": [length_of(f"ja{bad}va")]}, "program"),
        ("POST", "/v1/hosts/h1/records", lambda bad: {"records": [{**FLOW, "comm": f"ja{bad}va"}]}, "comm"),
        ("POST", "/v1/hosts/h1/records", lambda bad: {"label": f"a{bad}b"}, "body"),
        (
            *("PUT", "/v1/switches/s1"),
            lambda bad: {"address": "198.18.0.1:9339", "server_name": f"a{bad}b"},
            "body.server_name",
        ),
        ("PUT", "/v1/switches/s1", lambda bad: {"address": f"s{bad}1:9339"}, "body.address"),
        ("POST", "/v1/tokens", lambda bad: {"role": "viewer", "name": f"a{bad}b"}, "body.name"),
        ("PUT", "/v1/recording", lambda bad: {"label": f"a{bad}b"}, "body.label"),
        ("POST", "/v1/models", lambda bad: {"label": "a", "features": [f"a{bad}b"]}, "body.features.0"),
        ("POST", "/v1/revisions", lambda bad: {"ports": [f"Ethernet{bad}0"]}, "body.ports.0"),
        ("POST", "/v1/revisions", lambda bad: {"spines": [f"s{bad}0"]}, "body.spines.0"),
        ("POST", "/v1/revisions", lambda bad: {"weights": {f"s{bad}0": 1}}, "body"),
        ("POST", "/v1/revisions", lambda bad: {f"lo{bad}ad": 1}, "body"),
        ("PUT", "/v1/hosts/h2", lambda bad: {f"lo{bad}ad": 1}, "body"),
    ],
)
def test_a_name_that_can_not_be_printed_is_refused_with_its_field(admin, method, path, body, field):
    for bad in BAD:
        answer = admin.request(method, path, **as_json(body(bad)))
        assert answer.status_code == 422, (bad, answer.text)
        detail = answer.json()["detail"]
        assert field in detail and detail.isprintable(), (bad, detail)


def test_names_in_paths_queries_and_headers_are_refused_too(admin):
    paths = [
        ("PUT", "/v1/hosts/h%1b2", {}),
        ("PUT", "/v1/lengths/ja%1bva:accepts:80", {}),
        ("PUT", "/v1/lengths/ja%e2%80%aeva:accepts:80", {}),
        ("GET", "/v1/hosts?after=h%1b1", {}),
        ("GET", "/v1/flows/statistics?label=a%0ab", {}),
        ("POST", "/v1/rollouts", {"Idempotency-Key": "a\x85b".encode("latin-1")}),
        ("POST", "/v1/rollouts", {"If-Match": "a\x9bb".encode("latin-1")}),
    ]
    for method, path, headers in paths:
        answer = admin.request(method, path, json={"revision": 1} if headers else {}, headers=headers)
        assert answer.status_code == 422, (path, answer.text)
        assert answer.json()["detail"].isprintable()


def test_one_hosts_bad_name_harms_no_other_host_and_not_the_page(admin):
    admin.put("/v1/hosts/h2")
    for host in ("h1", "h2"):
        assert admin.post(f"/v1/hosts/{host}/lengths", **as_json({"lengths": [length_of("\ud800")]})).status_code == 422
        assert admin.post(f"/v1/hosts/{host}/lengths", json={"lengths": [length_of("java")]}).status_code == 200
    assert [each["program"] for each in admin.get("/v1/lengths").json()["lengths"]] == ["java"]


def test_names_that_an_earlier_version_kept_are_shown_and_forgotten(admin, service):
    old = Fabric().heard("h1", [Announced.from_json(length_of("java"))]).to_json()
    kept = [{**each, "program": program} for each in old["found"] for program in ("a\ud800", "b\x1b[2J", "c\u202e")]
    pinned = [{**length_of("d\ud800e"), "pinned": True}]
    service.store.set_setting(KEY, {"found": kept, "pinned": pinned})
    service.store.put_switch("s1", "198.18.0.1:9339", "leaf", "a\x1b\u202eb")
    admin.put("/v1/hosts/h2")
    assert admin.post("/v1/hosts/h2/lengths", json={"lengths": [length_of("java")]}).status_code == 200
    assert admin.get("/v1/switches").status_code == 200
    names = [f"{each['program']}:accepts:9092" for each in admin.get("/v1/lengths").json()["lengths"]]
    assert names == sorted(["a?:accepts:9092", "b?[2J:accepts:9092", "c?:accepts:9092", "d?e:accepts:9092", names[-1]])
    for name in names:
        assert admin.delete(f"/v1/lengths/{name.replace('?', '%3F')}").status_code == 204
    assert Lengths(service.store).fabric == Fabric()


def test_refusals_are_noted_as_text_that_can_be_printed(admin, anonymous):
    path = "/v1/state%1b%5b2J%e2%80%ae%00"
    anonymous.put(path, json={}, headers={"Authorization": "Bearer qct_nobody"})
    anonymous.get("/v1/state", headers={"Authorization": "Bearer qct_nobody"})
    assert all(each["subject"].isprintable() and each["actor"].isprintable() for each in admin.get("/v1/audit").json())


class SwitchSays(grpc.RpcError):
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.INTERNAL

    def details(self) -> str:
        return "queue\x1b[2J \u202e3\0"


def test_what_a_switch_says_is_kept_as_text_that_can_be_printed():
    check_printable(reason_of(SwitchSays()), "reason", LengthError)
    check_printable(reason_of(ValueError("a\x1bb")), "reason", LengthError)

    class Value:
        json_ietf_val = json.dumps({"a\ud800": ["\x1b[2J", {"b": "\u202e"}, 7, None]}).encode()

    assert _json(Value) == {"a\\ud800": ["\\x1b[2J", {"b": "\\u202e"}, 7, None]}


def test_no_bytes_of_others_steer_an_operators_terminal(capsys):
    evil = "a\x1b[2J\x9b1m\u202e\ud800b\r\x07"
    show.fields({"error": evil, f"x{evil}": 1})
    show.table([[evil, 1, None]], "NAME", "#COUNT", "NONE")
    show.tell(None, False, evil, evil)
    show.tell({"error": evil}, True)
    last = {"id": 1, "phase": "failed", "error": evil, "wave": 0, "plan": {"waves": []}, "switches": {}, "hosts": {}}
    show.follow(iter([last]), False)
    Refused(evil).show()
    printed = capsys.readouterr()
    for line in (printed.out + printed.err).splitlines():
        assert line.isprintable(), line
    assert "a\\x1b[2J" in printed.out and "a\\x1b[2J" in printed.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_bytes_of_others_break_a_log_line(form):
    evil = "a\x1b[2J\u202e\ud800\nb"
    try:
        raise ValueError(evil)
    except ValueError as error:
        failure = (type(error), error, error.__traceback__)
    record = logging.LogRecord("tests", logging.ERROR, "", 0, "host name=%s event=failed", (evil,), failure)
    lines = logs.formatter(form).format(record).splitlines()
    assert lines and all(line.isprintable() for line in lines)
    if form == "json":
        assert json.loads(lines[0])["name"] == evil
