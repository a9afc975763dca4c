"""`qclimb fabric`, `switch`, `rollout` and so on, against the real server."""

import json
import re
import time
from collections.abc import Iterator
from importlib import import_module

import httpx
import pytest
from click.testing import CliRunner, Result
from qclimb.stretch import Stretch

from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from tests.orchestrator.served import served
from tests.waiting import wait_until


class Line:
    """A command line of one token at one orchestrator."""

    def __init__(self, url: str, token: str) -> None:
        self.environment = {"QCLIMB_URL": url, "QCLIMB_TOKEN": token, "QCLIMB_TOKEN_FILE": None, "QCLIMB_CA": None}

    def run(self, words: str) -> Result:
        return self.run_words(words.split())

    def run_words(self, words: list[str]) -> Result:
        return CliRunner().invoke(import_module("qclimb.cli").main, words, env=self.environment)

    def __call__(self, words: str) -> str:
        found = self.run(words)
        assert found.exit_code == 0, found.output
        return found.output

    def json(self, words: str):
        return json.loads(self(f"{words} --json"))


@pytest.fixture
def line(service) -> Iterator[Line]:
    """An admin's."""
    with served(service) as url:
        yield Line(url, tokens.issue(service.store, "root", Role.ADMIN))


def test_a_fabric_is_brought_from_nothing_to_a_policy_in_force(line, service):
    assert "host h1 is registered" in line("host add h1")
    assert "nobody" not in line("fabric show") and "none in force" in line("fabric show")
    assert "no revision yet" in line("revision list")
    made = line("revision make --priorities 3 --threshold 30000 --threshold 900000")
    assert "revision 1: thresholds 30 KB, 900 KB" in made and "qclimb rollout start 1" in made
    started = line.json("rollout start 1 --key once")
    assert line.json("rollout start 1 --key once") == started  # done once
    host = Line(line.environment["QCLIMB_URL"], tokens.issue(service.store, "h1", Role.ADMIN))
    with httpx.Client(base_url=line.environment["QCLIMB_URL"]) as rest:
        rest.headers["Authorization"] = f"Bearer {host.environment['QCLIMB_TOKEN']}"
        rest.post("/v1/hosts/h1/records", json={"policy_generation": 1}).raise_for_status()
    watched = line("rollout show 1 --watch")
    assert watched.splitlines()[-1] == "rollout 1 done (hosts: 1 applied)"
    told = line("fabric show")
    assert "revision 1, mode pias" in told and "1 registered, 0 silent, 0 follow another policy" in told
    assert line.json("policy show")["threshold_bytes"] == [30000, 900000]
    assert "h1" in line("host list") and "start-rollout" in line("fabric audit")
    (listed,) = line.json("rollout list")
    assert (listed["phase"], listed["hosts"]) == ("done", {"applied": 1})


def test_a_rollout_that_is_rolled_back_ends_the_line_with_status_1(line):
    line("switch add l1 127.0.0.1:1")
    line("revision make --threshold 30000 --priorities 2")
    found = line.run("rollout start 1 --absent-most 0 --watch")
    assert found.exit_code == 1
    assert "rollout 1 rolled-back: switch l1 at 127.0.0.1:1: " in found.output
    events = line.run("rollout show 1 --watch --json")
    assert events.exit_code == 1 and json.loads(events.output.splitlines()[-1])["phase"] == "rolled-back"
    shown = line("rollout show 1")
    assert "failed" in shown and "l1" in shown
    assert "rolled-back" in line("rollout list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("revision make --load 0.5 --label never", "label: nothing was recorded under 'never'"),
        ("rollout start 9", "there is no 9"),
        ("switch add l1 nowhere", "body.address is 'nowhere'"),
        ("switch show l9", "no 'l9' is registered"),
        ("revision make --load 2", "2.0 is not in the range"),
        ("fabric show --ca /no/such/file", "expected a PEM file"),
        ("fabric show --token-file /no/such/file", "expected a file with a token"),
        ("fabric show --url http://127.0.0.1:1", "http://127.0.0.1:1: GET /v1/overview"),
        ("model make never", "nothing was recorded under 'never'"),
        ("rollout show 9 --watch", "there is no 9"),
    ],
)
def test_a_refusal_is_one_sentence_and_status_2(line, words, said):
    found = line.run(words)
    assert found.exit_code == 2 and said in found.output, found.output
    assert "Traceback" not in found.output and isinstance(found.exception, SystemExit)


def test_a_fabric_that_a_rollout_could_not_reach_says_so(line):
    line("switch add l1 127.0.0.1:1")
    line("revision make --threshold 30000 --priorities 2")
    line.run("rollout start 1 --absent-most 0 --watch")
    told = dict(row.split(maxsplit=1) for row in line("fabric show").splitlines())
    assert told["rollout"].startswith("1 of revision 1 is rolled-back: switch l1 at ")
    assert told["failing"].startswith("switch l1 at ")
    found = line.json("fabric show")
    assert found["rollout"]["phase"] == "rolled-back" and list(found["switches_failing"]) == ["l1"]


def test_hosts_are_switched_off_and_on_by_one_word(line, service):
    line("off")
    assert service.store.off is not None and "switched off" in line("fabric show") + line("policy show")
    line("on")
    assert service.store.off is None and line.json("fabric show")["off"] is None
    assert line.run("on").exit_code == 2


@pytest.mark.parametrize("mode", ["off", "observe"])
@pytest.mark.parametrize("spines", [{}, {"spines": ["s1", "s2", "s3"], "queues": [6, 5]}], ids=["one path", "spines"])
def test_a_revision_that_marks_nothing_needs_no_recorded_sizes(line, tmp_path, mode, spines):
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"label": "never", **spines}))
    found = line.json(f"revision make --mode {mode} --body {body}")
    assert found["policy"]["mode"] == mode and found["optimised"] is None


@pytest.mark.parametrize(
    ("words", "warns"),
    [
        ("--mode qclimb", True),
        ("--mode pias", False),
        ("--mode observe", False),
    ],
)
def test_what_may_not_have_been_meant_is_said_beside_the_answer(line, words, warns):
    made = line.run(f"revision make --threshold 30000 --priorities 2 {words}")
    shown = line.run("revision show 1")
    for found in (made, shown):
        assert found.exit_code == 0 and found.stderr.startswith("warning: model is null") == warns
    assert bool(line.json("revision show 1")["warnings"]) == warns


UNREADABLE = re.compile(r"\d{10}|[{}\[\]]|\bNone\b|\bTrue\b|\bFalse\b")


@pytest.mark.epochs
def test_people_read_no_generation_no_seconds_since_1970_and_no_python(line, service, tmp_path):
    for words in ("host add h1", "host add h2", "switch add l1 127.0.0.1:1"):
        line(words)
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"spines": ["s1", "s2"], "queues": [6, 5], "weights": "equal", "thresholds": [9, 99]}))
    line("revision make --threshold 30000 --priorities 2")
    line(f"revision make --body {body}")
    for number in (1, 2):
        line(f"rollout start {number} --absent-most 9")
        number, rollout = wait_until(lambda: (now := service.runner.now) and now[1].active and now)
        with service.store.writing() as connection:
            service.store.hosts_seen(connection, {"h1": rollout.generation}, time.time())
        for name in ("h1", "h2"):
            service.runner.host_reported(name, rollout.generation)
        wait_until(lambda: service.runner.running is None)
    service.course.add("h1", Stretch(20, 0.7), time.time(), rollout.generation)
    service.course.add("h2", Stretch(20, 0.7), time.time(), rollout.generation)
    shown = {
        words: line(words)
        for words in (
            *("revision show 1", "revision show 2", "revision list", "rollout show 1", "rollout show 2"),
            *("rollout list", "fabric show", "fabric felt", "fabric audit", "policy show", "token list", "token mine"),
            *("host list", "host show h1", "host list --standing-out", "switch list", "switch show l1"),
        )
    }
    assert {words: found for words, found in shown.items() if UNREADABLE.search(found)} == {}
    for words in ("rollout show 2", "host list", "host show h1", "fabric show"):
        assert "revision 2" in shown[words], words
    line("off")
    service.runner.host_reported("h1", service.store.off.generation)
    with service.store.writing() as connection:
        service.store.hosts_seen(connection, {"h1": service.store.off.generation}, time.time())
    assert line("host show h1").splitlines()[1].split() == ["policy", "off"]


def test_tokens_are_made_shown_once_and_revoked(line):
    made = line("token make operator adam --expires-in-s 600").strip()
    adam = Line(line.environment["QCLIMB_URL"], made)
    assert adam.json("token mine")["role"] == "operator"
    refused = adam.run("token list")
    assert refused.exit_code == 2 and "expected admin" in refused.output
    assert "adam" in line("token list") and made not in line("token list")
    assert "1 tokens of adam are revoked" in line("token revoke adam")
    assert "known token" in adam.run("token mine").output


def test_devices_flows_and_recordings_are_told(line):
    line("switch add s1 127.0.0.1:1 --role spine")
    assert "s1" in line("switch list") and line.json("switch show s1")["role"] == "spine"
    assert "is forgotten" in line("switch remove s1")
    assert "no switch is registered" in line("switch list")
    line("host add h2")
    assert line.json("host show h2")["name"] == "h2" and "h2" in line("host list --standing-out")
    assert "revoked" in line("host remove h2")
    assert "recording: monday" in line("fabric record monday") and "under no name" in line("fabric record --end")
    assert "flows" in line("fabric flows") and "none is known" in line("fabric certificates")
    assert "no model yet" in line("model list")


def test_lengths_are_listed_pinned_forbidden_and_forgotten(line, service):
    assert "nothing is known yet" in line("length list")
    pinned = line("length pin java:accepts:9092 --offset 0 --width 4 --constant-bytes 4")
    assert "4 bytes at 0, big endian, +4, pinned" in pinned
    assert "java:accepts:9092" in line("length list")
    assert line.json("length list")["lengths"][0]["pinned"] is True
    assert "forbidden" in line("length forbid nginx:accepts:80")
    assert line.json("length list")["lengths"][1]["use"] == "forbidden"
    assert "counts again" in line("length forget nginx:accepts:80")
    for words, said in (("forbid java", "expected PROGRAM:accepts:PORT"), ("forget a:connects:1", "none are known")):
        found = line.run(f"length {words}")
        assert found.exit_code == 2 and said in found.output, found.output
    assert [note.action for note in service.store.notes(3)] == ["unpin-lengths", "pin-lengths", "pin-lengths"]


def test_a_shell_learns_to_complete(line):
    assert "_QCLIMB_COMPLETE" in line("completion bash") and "qclimb" in line("completion zsh")
    asked = {"_QCLIMB_COMPLETE": "bash_complete", "COMP_WORDS": "qclimb roll", "COMP_CWORD": "1"}
    found = CliRunner().invoke(import_module("qclimb.cli").main, [], env=asked, prog_name="qclimb")
    assert "plain,rollout" in found.output


@pytest.mark.parametrize(
    "words",
    [
        "token revoke nobody",
        "host remove h9",
        "switch remove s9",
        "fabric flows --label never",
        "length forget a:accepts:1",
    ],
)
def test_what_is_not_there_is_refused(line, words):
    assert line.run(words).exit_code == 2


@pytest.mark.parametrize("name", ["../switches/s1", "", ".", "s1/", "%73%31", "s1?", "s1#"])
def test_no_odd_name_reaches_another_device_or_token(line, name):
    line("switch add s1 127.0.0.1:1")
    line("host add s1")
    line("token make viewer s1")
    for group, verb in (("host", "remove"), ("token", "revoke"), ("switch", "remove")):
        found = line.run_words([group, verb, name])
        assert found.exit_code == 2 and isinstance(found.exception, SystemExit), found.output
    assert line.run("switch show s1").exit_code == line.run("host show s1").exit_code == 0
    assert "s1" in line("token list")


def test_changes_that_no_switch_could_be_asked_for_end_with_status_1(line):
    line("revision make --threshold 30000 --priorities 2")
    assert line.run("revision changes 1").exit_code == 0
    line("switch add l1 127.0.0.1:1")
    assert line.run("revision changes 1").exit_code == line.run("revision changes 1 --json").exit_code == 1
