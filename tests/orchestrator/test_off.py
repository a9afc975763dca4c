"""The emergency exit: all hosts are switched off, whatever else there is, and whatever the database can keep."""

import json
import sqlite3
from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient
from qclimb.policy import Mode, Policy

from orchestrator.actors import Actor
from orchestrator.errors import ConflictError
from orchestrator.fabric.rollout import HostPhase
from orchestrator.fabric.runner import Runner
from orchestrator.rest import tokens
from orchestrator.rest.app import make_app
from orchestrator.rest.host_cache import HostCache
from orchestrator.rest.tokens import Role
from orchestrator.store.reader import Reader
from orchestrator.store.store import Store
from tests.orchestrator.asking import as_role, detail
from tests.orchestrator.fleet import Switches, ended
from tests.waiting import wait_until

TABLES = ("settings", "audit", "rollouts", "rollout_steps", "revisions", "tokens")


@pytest.fixture
def read_only(store: Store) -> Iterator[Callable[[], None]]:
    """The database takes nothing; called, it does again."""
    with sqlite3.connect(store.path or "") as connection:
        for table in TABLES:
            for verb in ("INSERT", "UPDATE"):
                said = "SELECT RAISE(ABORT, 'attempt to write a readonly database')"
                connection.execute(f"CREATE TRIGGER {table}{verb} BEFORE {verb} ON {table} BEGIN {said}; END")

    def free() -> None:
        for table in TABLES:
            for verb in ("INSERT", "UPDATE"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}{verb}")
        connection.commit()

    yield free
    free()
    connection.close()


def policy_of(client: TestClient, etag: str | None = None):
    """What h1 is told to follow, and its ETag; None: what it has."""
    answer = client.get("/v1/hosts/h1/policy", headers={} if etag is None else {"If-None-Match": etag})
    if answer.status_code == 304:
        return None, etag
    assert answer.status_code == 200, answer.text
    return Policy.from_json(answer.json()), answer.headers["etag"]


def in_force(admin: TestClient, service, **body: object) -> int:
    """A rollout whose policy h1 follows."""
    made = admin.post("/v1/revisions", json={"thresholds": [5000], "priorities": 2, **body}).json()["id"]
    begun = admin.post("/v1/rollouts", json={"revision": made}).json()
    wait_until(lambda: service.store.rollout(begun["id"]).document.get("active"))
    deliver(admin, begun["generation"])
    wait_until(lambda: service.runner.running is None)
    return int(begun["generation"])


def deliver(admin: TestClient, generation: int):
    return admin.post("/v1/hosts/h1/records", json={"policy_generation": generation})


def test_before_any_rollout_or_recording_hosts_are_switched_off(admin, service):
    assert admin.get("/v1/hosts/h1/policy").status_code == 404
    told = admin.put("/v1/off").json()
    assert (told["by"], told["unkept"]) == ("root", None)
    policy, etag = policy_of(admin)
    assert (policy.mode, policy.model_generation, etag) == (Mode.OFF, 0, f'"{told["generation"]}"')
    assert policy_of(admin, etag) == (None, etag)
    assert deliver(admin, 0).json()["policy_etag"] == etag
    assert admin.delete("/v1/off").status_code == 204
    assert admin.get("/v1/hosts/h1/policy").status_code == 404
    assert [note.action for note in service.store.notes(2)] == ["switch-on", "switch-off"]


def test_hosts_are_off_at_the_next_poll_and_follow_the_same_policy_again_afterwards(admin, service):
    generation = in_force(admin, service)
    before, etag = policy_of(admin)
    told = admin.put("/v1/off").json()
    assert deliver(admin, generation).json()["policy_etag"] == f'"{told["generation"]}"'
    policy, off_etag = policy_of(admin, etag)
    assert policy.mode is Mode.OFF and off_etag != etag
    assert admin.put("/v1/off").json() == told  # nothing to fetch anew
    for path in ("/v1/overview", "/v1/state"):
        found = admin.get(path).json()
        assert found["off"] == told and found["policy"]["generation"] == generation
    assert admin.get("/v1/overview").json()["hosts"]["behind"] == 1
    deliver(admin, told["generation"])
    assert admin.get("/v1/overview").json()["hosts"]["behind"] == 0
    assert "qclimb_switched_off 1.0" in admin.get("/metrics").text
    admin.delete("/v1/off")
    assert policy_of(admin, off_etag) == (before, etag)
    assert "not switched off" in detail(admin.delete("/v1/off"), 409)


def test_a_rollout_that_waits_for_hosts_ends(admin, service):
    admin.post("/v1/revisions", json={"thresholds": [5000], "priorities": 2})
    begun = admin.post("/v1/rollouts", json={"revision": 1}).json()
    wait_until(lambda: service.store.rollout(begun["id"]).document.get("active"))
    admin.put("/v1/off")
    row = ended(service.store, begun["id"])
    assert row.phase == "failed" and "switched off by root" in row.document["error"]
    assert service.store.steps(begun["id"])["hosts"]["h1"]["phase"] == HostPhase.FAILED


def test_a_rollout_of_switches_ends_and_they_get_back_what_they_had(store, revision):
    class Held(Switches):
        def commit(self, switch, *words) -> bool:
            super().commit(switch, *words)
            carried.switch_off("adam")
            carried.end_off("adam")
            return True

    switches = Held()
    carried = Runner(store, switches)
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    row = ended(store, carried.start(revision, "test"))
    assert row.phase == "rolled-back" and store.setting("policy") is None
    assert switches.given[-1] == ("l1", 3) and store.off is not None
    carried.close()


@pytest.mark.sqlite_only("its triggers are SQLite's")
def test_while_the_database_takes_nothing_hosts_are_off_and_it_is_told_later(admin, service, read_only):
    told = admin.put("/v1/off").json()
    assert "readonly" in told["unkept"]
    assert policy_of(admin)[0].mode is Mode.OFF
    assert service.store.setting("off") is None
    assert admin.delete("/v1/off").status_code == 503  # nobody knows what another process would do
    assert policy_of(admin)[0].mode is Mode.OFF
    read_only()
    wait_until(lambda: service.store.setting("off"))
    wait_until(lambda: admin.get("/v1/overview").json()["off"]["unkept"] is None)
    assert service.store.setting("off")["generation"] == told["generation"]
    assert service.store.notes(1)[0].action == "switch-off"


@pytest.mark.sqlite_only("its triggers are SQLite's")
def test_while_the_database_takes_nothing_the_rollout_that_runs_goes_no_further(admin, service, request):
    admin.post("/v1/revisions", json={"thresholds": [5000], "priorities": 2})
    begun = admin.post("/v1/rollouts", json={"revision": 1}).json()
    wait_until(lambda: service.store.rollout(begun["id"]).document.get("active"))
    free = request.getfixturevalue("read_only")
    admin.put("/v1/off")
    number, rollout = service.runner.now
    assert number == begun["id"] and rollout.ended
    free()
    assert ended(service.store, number).phase == "failed"


def test_a_rollout_that_an_operator_begins_has_hosts_on_again_once_its_policy_is_in_force(admin, service):
    in_force(admin, service)
    off = admin.put("/v1/off").json()
    generation = in_force(admin, service)
    assert policy_of(admin)[1] == f'"{generation}"'
    assert service.store.off is None and service.store.setting("off") is None
    assert admin.put("/v1/off").json()["generation"] != off["generation"]


def test_a_rollout_that_fails_leaves_hosts_off(admin, service):
    admin.put("/v1/off")
    admin.put("/v1/switches/l1", json={"address": "127.0.0.1:1"})
    admin.post("/v1/revisions", json={"thresholds": [5000], "priorities": 2})
    begun = admin.post("/v1/rollouts", json={"revision": 1, "absent_most": 0}).json()
    assert ended(service.store, begun["id"]).phase == "rolled-back"
    assert policy_of(admin)[0].mode is Mode.OFF


def test_no_part_of_the_orchestrator_begins_a_rollout_meanwhile(store, revision):
    carried = Runner(store, Switches())
    carried.switch_off("adam")
    for actor in Actor:
        with pytest.raises(ConflictError, match="switched off by adam"):
            carried.start(revision, actor)
    assert store.rollouts() == []


def test_a_process_that_begins_later_ends_what_had_begun_before(store, revision):
    store.put_host("h1")
    before = Runner(store, Switches())
    number = before.start(revision, "test")
    wait_until(lambda: store.setting("policy"))
    before.close()  # without its end
    off = store.switch_off("adam")
    store.keep_off()
    later = Runner(store, Switches())
    later.recover()
    row = ended(store, number)
    assert row.phase == "failed" and "switched off by adam" in row.document["error"]
    assert store.off == off
    later.close()


def test_hosts_stay_off_in_a_process_that_begins_later(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    store = Store(url)
    off = store.switch_off("adam")
    store.keep_off()
    store.close()
    later = Store(url)
    assert later.off == off and HostCache(later).policy.etag == f'"{off.generation}"'
    later.close()


def test_a_worker_that_only_reads_the_database_tells_hosts_too(store):
    reader = Reader(store.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""))
    try:
        store.switch_off("adam")
        store.keep_off()
        wait_until(lambda: reader.off == store.off)
        assert json.loads(HostCache(reader).policy.content)["mode"] == "off"
        store.switch_on("adam")
        wait_until(lambda: reader.off is None)
    finally:
        reader.close()


def test_operators_may_and_viewers_and_hosts_may_not(service):
    with TestClient(make_app(service)) as client:
        for role, status in ((Role.VIEWER, 403), (Role.HOST, 403), (Role.OPERATOR, 200)):
            client.headers["Authorization"] = f"Bearer {tokens.issue(service.store, role.value, role)}"
            assert client.put("/v1/off").status_code == status
        as_role(client, service, Role.VIEWER)
        assert client.delete("/v1/off").status_code == 403
        assert client.get("/v1/overview").json()["off"]["by"] == "operator"
