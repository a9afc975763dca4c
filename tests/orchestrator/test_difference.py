"""A dry run: what would change at each device, and that nothing does."""

from dataclasses import replace

from qclimb.policy import Mode

from orchestrator.errors import FleetError
from orchestrator.fabric.difference import Change, difference, would_change
from orchestrator.plan.revision import compose
from tests.orchestrator.fleet import Switches


def made(first_bytes: int = 5000, queues: tuple[int, ...] = (1, 0)):
    return compose(Mode.PIAS, (first_bytes,), 2, queues, slack_bytes=0)


def test_a_difference_names_each_value_by_its_path_and_no_generation():
    old, new = made().at(3), made(queues=(6, 0)).at(9)
    assert difference(old.intent.to_gnmi(), new.intent.to_gnmi()) == (
        Change("/qclimb/classes/class[priority=0]/config/queue", 1, 6),
    )
    assert difference(old.intent.to_gnmi(), old.at(4).intent.to_gnmi()) == ()
    assert difference({"a": 1}, {"b": [1, 2]}) == (Change("/b", None, [1, 2]), Change("/a", 1, None))


class Held(Switches):
    """l1 holds an intent, l2 nothing, l3 does not answer."""

    def intent(self, switch):
        if switch.name == "l3":
            raise FleetError("switch l3: no answer", changed=False, absent=True)
        return made().at(3).intent if switch.name == "l1" else None


def test_a_dry_run_asks_each_switch_and_changes_nothing(store):
    for name in ("l1", "l2", "l3"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    fleet = Held()
    number = store.add_revision("me", made(7000, (6, 0)).to_json())
    store.set_setting("policy", replace(made().policy, generation=3).to_json())
    found = would_change(store, fleet, number)
    assert [change.path.rpartition("class[")[2] for change in found.switches["l1"].changes] == [
        "priority=0]/config/queue",
        "priority=1]/config/threshold-bytes",
    ]
    assert len(found.switches["l2"].changes) > 5 and all(each.before is None for each in found.switches["l2"].changes)
    assert (found.switches["l3"].changes, found.switches["l3"].error) == ((), "switch l3: no answer")
    assert found.hosts == (Change("/threshold_bytes", [5000], [7000]),)
    assert (fleet.given, store.rollouts()) == ([], [])


def test_it_is_asked_by_rest(admin, service):
    number = admin.post("/v1/revisions", json={"priorities": 2, "thresholds": [5000]}).json()["id"]
    admin.put("/v1/switches/l1", json={"address": "127.0.0.1:1"})
    found = admin.get(f"/v1/revisions/{number}/changes")
    assert found.status_code == 200, found.text
    assert "refused" in found.json()["switches"]["l1"]["error"]
    assert found.json()["switches"]["l1"]["changes"] == []
    assert {"path": "/threshold_bytes", "before": None, "after": [5000]} in found.json()["hosts"]
    assert admin.get("/v1/revisions/99/changes").status_code == 404
    assert service.store.rollouts() == []
