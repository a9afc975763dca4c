"""A database that came back from a backup brings nothing under a name that hosts and switches know already."""

import shutil

import pytest
from fastapi.testclient import TestClient

from orchestrator.fabric.runner import Runner
from orchestrator.rest import tokens
from orchestrator.rest.app import make_app
from orchestrator.store import generations
from orchestrator.store.store import Store
from tests.orchestrator.fleet import Switches
from tests.waiting import wait_until

pytestmark = pytest.mark.epochs


def test_a_number_is_legible_in_its_generation_and_each_call_gives_another_one():
    made = {generations.new(7) for _ in range(100)}
    assert len(made) == 100
    assert all(generations.number_of(each) == 7 and str(each).startswith("7") for each in made)
    assert max(made) < 2**53, "a JSON number everywhere"
    assert [generations.number_of(each) for each in (0, 1, 4711)] == [0, 1, 4711], "of versions that had no epoch"


def rolled_out(client: TestClient, threshold_bytes: int) -> tuple[dict[str, int], str]:
    """A rollout of a revision to host h1: its answer, and the ETag of the policy."""
    made = client.post("/v1/revisions", json={"priorities": 2, "thresholds": [threshold_bytes]}).json()
    begun = client.post("/v1/rollouts", json={"revision": made["id"]}).json()

    def tag_once_done() -> str | None:
        policy = client.get("/v1/hosts/h1/policy")
        if policy.status_code == 200 and policy.json()["generation"] == begun["generation"]:
            client.post("/v1/hosts/h1/records", json={"policy_generation": begun["generation"]})
        is_done = client.get(f"/v1/rollouts/{begun['id']}").json()["phase"] == "done"
        return str(policy.headers["ETag"]) if is_done else None

    return begun, wait_until(tag_once_done, "the rollout is done")


@pytest.mark.sqlite_only("copies the database's file")
def test_after_a_backup_is_restored_a_host_gets_the_next_policy_and_the_rollout_waits_for_it(admin, service, tmp_path):
    first, _ = rolled_out(admin, 5000)
    model = service.store.reserve_model()
    for found in tmp_path.glob("store.db*"):  # as a backup has it
        (tmp_path / "backup").mkdir(exist_ok=True)
        shutil.copy(found, tmp_path / "backup")
    lost, etag = rolled_out(admin, 6000)
    lost_model = service.store.reserve_model()

    store = Store(f"sqlite:///{tmp_path / 'backup' / 'store.db'}")
    for part in (service, service.recordings, service.runner, service.runner._ledger, service.watch):
        part.store = store
    service.__post_init__()
    with TestClient(make_app(service)) as client:
        client.headers["Authorization"] = f"Bearer {tokens.issue(store, 'me', tokens.Role.ADMIN)}"
        host = {"Authorization": f"Bearer {tokens.issue(store, 'h1', tokens.Role.HOST)}", "If-None-Match": etag}
        again, _ = rolled_out(client, 7000)
        assert again["id"] == lost["id"]
        assert again["generation"] not in (lost["generation"], first["generation"])
        policy = client.get("/v1/hosts/h1/policy", headers=host)
        assert (policy.status_code, policy.json()["threshold_bytes"]) == (200, [7000])
        assert policy.headers["ETag"] != etag
        assert store.reserve_model() not in (lost_model, model)
    service.watch.close()
    store.close()


def test_what_an_older_version_left_running_is_ended_by_its_number(store):
    """Its documents have the rollout's number as generation, or none yet."""
    document = {"generation": 0, "phase": "running", "error": None, "active": False, "turned_back": False}
    number = store.add_rollout(1, "test", {**document, "switches": {}, "hosts": {}})
    assert store.rollout(number).generation == number
    carried = Runner(store, Switches())
    carried.recover()
    wait_until(lambda: not carried.running, "the rollout ends")
    assert store.rollout(number).phase != "running"
    carried.close()
