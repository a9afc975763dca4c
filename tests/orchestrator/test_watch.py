"""The watch over bounds in force: drift is said, a better model offered, and rolled out only if told so."""

import time
from dataclasses import replace

import pytest
from qclimb.hostfile import decode_forest
from qclimb.policy import Policy
from qclimb.record import HAD_FOREST_BOUNDS
from sqlalchemy import update

from orchestrator.errors import ConflictError, TrainingError
from orchestrator.ingest.recordings import kept_of
from orchestrator.models.trainer import Trainer
from orchestrator.models.training import train
from orchestrator.store import tables
from orchestrator.watch.bounds import OnDrift, Watch
from tests.waiting import wait_until

HOUR_NS = 3600 * 10**9


class HereTrainer(Trainer):
    """Trains in this process, which is sooner done; counts."""

    def __init__(self):
        super().__init__()
        self.trained = []
        self.instead = {}

    def train(self, rows, hosts, generation, wanted):
        self.trained.append(len(rows))
        return train(rows, hosts, generation, **(wanted | self.instead))


@pytest.fixture(scope="module")
def old(records):
    return train(kept_of(records), ["h1"] * len(records), 1, trees=6, depth=8)


@pytest.fixture
def watch(service):
    service.watch.trainer, service.watch.settle_s = HereTrainer(), 0
    return service.watch


@pytest.fixture
def in_force(admin, service, records, old, watch):
    """Brings the old model into force; what it was trained on is in the store."""
    service.recordings.add("a", "h1", records, None, 0)
    service.store.add_model(1, "a", old.report, old.onnx, old.forest)
    made = admin.post("/v1/revisions", json={"mode": "qclimb", "label": "a", "model": 1})
    assert made.status_code == 201, made.text
    number = admin.post("/v1/rollouts", json={"revision": made.json()["id"]}).json()["id"]
    await_end(admin, number)
    watch.look()
    return number


def await_end(admin, number):
    def reported_and_done() -> bool:
        admin.post("/v1/hosts/h1/records", json={"policy_generation": number})
        return admin.get(f"/v1/rollouts/{number}").json()["phase"] == "done"

    wait_until(reported_and_done, f"rollout {number} is done")


def bounded(records, forest, factor=1):
    """The flows an hour later, so many times as large, as a host reports them under a forest."""
    later = [
        replace(
            record,
            start_ns=record.start_ns + HOUR_NS,
            last_write_ns=record.last_write_ns + HOUR_NS,
            size_bytes=record.size_bytes * factor,
            last_size_bytes=tuple(size * factor for size in record.last_size_bytes),
        )
        for record in records
    ]
    lower, upper = decode_forest(forest).predict_bytes(kept_of(later)["features"][:, :11])
    return [
        replace(record, lower_bytes=int(low), upper_bytes=int(high), flags=HAD_FOREST_BOUNDS)
        for record, low, high in zip(later, lower, upper, strict=True)
    ]


def test_without_a_model_in_force_there_is_nothing_to_watch(admin, service, watch):
    service.store.set_setting("drift", {"model": 1})
    assert watch.look() is None
    assert admin.get("/v1/state").json()["drift"] is None


def test_bounds_that_hold_are_left_alone(in_force, admin, service, watch, records, old):
    service.recordings.add("b", "h1", bounded(records, old.forest), None, 0)
    found = watch.look()
    assert (found["model"], found["drifted"], found["offer"]) == (1, None, None)
    assert found["windows"][0]["flows"] == len(records)
    assert watch.trainer.trained == []
    assert admin.get("/v1/state").json()["drift"] == found


def test_a_better_model_is_offered_with_a_revision_and_not_rolled_out(in_force, admin, service, watch, records, old):
    service.recordings.add("b", "h1", bounded(records, old.forest, 100), None, 0)
    found = watch.look()
    assert "outside their bounds" in found["drifted"]
    assert found["offer"]["model"] == 2
    assert "interval score" in found["offer"]["why"]
    state = admin.get("/v1/state").json()
    assert state["drift"] == found
    assert (state["running_rollout"], state["policy"]["model_generation"]) == (None, 1)
    before, offered = (admin.get(f"/v1/revisions/{n}").json() for n in (1, found["offer"]["revision"]))
    assert offered["policy"].pop("model_generation") == 2
    before["policy"].pop("model_generation")
    assert {k: offered[k] for k in ("policy", "intent")} == {k: before[k] for k in ("policy", "intent")}
    assert admin.get("/v1/models/2").json()["report"]["trees"] == old.report["trees"]

    watch.look()
    assert len(watch.trainer.trained) == 1, "an offer stands until as many flows came again as it learned from"

    number = admin.post("/v1/rollouts", json={"revision": found["offer"]["revision"]}).json()["id"]
    await_end(admin, number)
    again = watch.look()
    assert (again["model"], again["windows"], again["offer"]) == (2, [], None)


def test_flows_that_a_rollout_finds_under_way_are_not_its_models(in_force, admin, service, watch, records, old):
    """Until hosts have taken a model up they report the bounds of the one before."""
    again = admin.post("/v1/rollouts", json={"revision": 1}).json()["id"]
    wait_until(lambda: service.store.setting("policy")["generation"] == again)
    wrong = [replace(r, lower_bytes=0, upper_bytes=1) for r in bounded(records, old.forest)]
    service.store.set_setting("drift", None)
    service.recordings.add("b", "h1", wrong, None, 0)
    assert (watch.look()["windows"], watch.look()["after"]) == ([], None)
    await_end(admin, again)
    found = watch.look()
    assert (found["windows"], found["drifted"]) == ([], None)
    service.recordings.add("b", "h1", wrong, None, 0)
    assert "outside their bounds" in watch.look()["drifted"]


def looking(service, clock, **more):
    """A watch as a new process has it, that flags alone."""
    parts = service.store, service.recordings, service.runner, service.trainer
    return Watch(*parts, OnDrift.FLAG, clock=lambda: clock[0], **more)


def test_a_clock_that_is_set_back_hides_no_flows(in_force, service, watch, records, old, monkeypatch):
    monkeypatch.setattr(time, "time", lambda real=time.time: real() - 3600)
    watch.on_drift = OnDrift.FLAG
    service.recordings.add(
        "b", "h1", [replace(r, lower_bytes=0, upper_bytes=1) for r in bounded(records, old.forest)], None, 0
    )
    assert "outside their bounds" in watch.look()["drifted"]


def test_hosts_have_their_time_to_settle_by_a_clock_that_nobody_sets_and_again_after_a_restart(
    in_force, service, watch, records, old
):
    wrong = [replace(r, lower_bytes=0, upper_bytes=1) for r in bounded(records, old.forest)]
    service.store.set_setting("drift", None)
    clock = [100.0]
    first = looking(service, clock, settle_s=3, every_s=30)
    assert first.wait_s() == 30
    assert (first.look()["after"], first.wait_s()) == (None, 3)
    clock[0] = 102.5
    assert (first.look()["after"], first.wait_s()) == (None, 0.5)
    again = looking(service, clock, settle_s=3, every_s=30)
    assert again.look()["after"] is None
    clock[0] = 104.0
    assert (again.look()["after"], again.wait_s()) == (None, 1.5)
    service.recordings.add("b", "h1", wrong, None, 0)
    clock[0] = 105.5
    found = again.look()
    assert (found["after"], found["windows"]) == (service.recordings.last_batch(), []), "those are of the model before"
    assert again.wait_s() == 30
    service.recordings.add("b", "h1", wrong, None, 0)
    third = looking(service, clock, settle_s=3)
    assert "outside their bounds" in third.look()["drifted"], "what has settled stays so over a restart"


def test_what_an_older_version_knew_of_bounds_that_are_off_is_not_forgotten(
    in_force, admin, service, watch, records, old
):
    watch.on_drift = OnDrift.FLAG
    reported_wrong(service, records, old)
    off = watch.look()["off"]
    await_end(admin, in_force + 1)
    found = service.store.setting("drift")
    del found["after"]
    service.store.set_setting("drift", found | {"since": 1e9})
    again = looking(service, [0.0], settle_s=0).look()
    assert again["off"] == off
    assert "since" not in again


def test_told_to_flag_it_flags(in_force, service, watch, records, old):
    watch.on_drift = OnDrift.FLAG
    service.recordings.add("b", "h1", bounded(records, old.forest, 100), None, 0)
    found = watch.look()
    assert found["drifted"] is not None
    assert (found["tried"], watch.trainer.trained) == (None, [])


def test_told_to_roll_out_it_rolls_out(in_force, admin, service, watch, records, old):
    watch.on_drift = OnDrift.ROLLOUT
    service.recordings.add("b", "h1", bounded(records, old.forest, 100), None, 0)
    found = watch.look()
    assert found["offer"]["rollout"] == in_force + 1
    await_end(admin, in_force + 1)
    assert admin.get("/v1/state").json()["policy"]["model_generation"] == 2
    assert [row["created_by"] for row in admin.get("/v1/rollouts").json()] == ["root", "drift"]


def test_what_is_no_better_is_not_offered_and_tried_again_only_with_a_further_window(
    in_force, service, watch, records, old
):
    watch.trainer.instead = {"features": ["role"]}
    wrong = [replace(r, lower_bytes=0, upper_bytes=1) for r in bounded(records, old.forest)]
    service.recordings.add("b", "h1", wrong, None, 0)
    found = watch.look()
    assert found["drifted"] is not None
    assert (found["offer"], len(service.store.models())) == (None, 1)
    assert "interval score" in found["tried"]["why"]
    watch.look()
    assert len(watch.trainer.trained) == 1
    for label in ("c", "d"):
        service.recordings.add(label, "h1", wrong, None, 0)
    watch.look()
    assert len(watch.trainer.trained) == 2


def test_a_training_that_fails_is_said_and_not_begun_at_every_look(in_force, service, watch, records, old):
    def fails(*_):
        watch.trainer.trained.append(0)
        raise TrainingError("models: the training process ended early, was it out of memory?")

    watch.trainer.train = fails
    service.recordings.add("b", "h1", bounded(records, old.forest, 100), None, 0)
    assert "out of memory" in watch.look()["tried"]["why"]
    watch.look()
    assert len(watch.trainer.trained) == 1


def test_it_looks_by_itself(in_force, admin, service, watch, records, old):
    watch.close()
    watch._ends.clear()
    watch.every_s = 0.05
    service.recordings.add("b", "h1", bounded(records, old.forest, 100), None, 0)
    watch.start()
    found = wait_until(lambda: (admin.get("/v1/state").json()["drift"] or {}).get("offer"), "a model is offered")
    assert found["model"] == 2


@pytest.fixture
def flagging(watch):
    """Bounds may be switched off, nothing is trained."""
    watch.on_drift = OnDrift.FLAG
    return watch


def reported_wrong(service, records, old, flows=2000):
    """A whole window of flows outside their bounds."""
    wrong = [replace(r, lower_bytes=0, upper_bytes=1) for r in bounded(records, old.forest)]
    for label in ("b", "c"):
        taken, flows = wrong[:flows], flows - len(wrong)
        service.recordings.add(label, "h1", taken, None, 0)


def aged(service, days=31):
    """The model in force was trained so long ago."""
    with service.store.writing() as connection:
        connection.execute(update(tables.models).values(created_at=time.time() - days * 86_400))
    service.store.set_setting("drift", None)


def test_bounds_that_are_demonstrably_wrong_are_switched_off_at_hosts_alone(
    in_force, admin, service, flagging, records, old
):
    service.store.put_switch("away", "192.0.2.1:9339", "leaf", None)
    reported_wrong(service, records, old)
    off = flagging.look()["off"]
    assert "2000 of the newest 2000 flows lie outside their bounds" in off["why"]
    await_end(admin, in_force + 1)
    state = admin.get("/v1/state").json()
    assert state["drift"]["off"] == off
    policy = admin.get("/v1/hosts/h1/policy").json()
    before = Policy.from_json(admin.get("/v1/revisions/1").json()["policy"])
    assert Policy.from_json(policy) == replace(before, generation=in_force + 1, use_forest=False)
    assert (before.use_forest, policy["model_generation"]) == (True, 1), "the model stays at the hosts"
    assert state["last_rollout"]["created_by"] == "drift"
    assert state["last_rollout"]["switches"] == {}, "a switch that is away holds nothing up"
    assert "qclimb_bounds_off 1.0" in admin.get("/metrics").text
    assert admin.get("/v1/audit").json()[0]["action"] == "bounds-off"
    assert admin.get("/v1/models/1/forest").status_code == 200


def test_less_than_a_window_is_flagged_and_switches_nothing_off(in_force, admin, service, flagging, records, old):
    reported_wrong(service, records, old, flows=1999)
    found = flagging.look()
    assert (found["drifted"] is not None, found["off"]) == (True, None)
    assert admin.get("/v1/state").json()["policy"]["use_forest"]
    assert "qclimb_bounds_off 0.0" in admin.get("/metrics").text


def test_bounds_too_old_are_switched_off_without_any_flow(in_force, admin, service, flagging):
    aged(service, 29)
    assert flagging.look()["off"] is None
    aged(service, 31)
    assert flagging.look()["off"]["why"] == "the model was trained 31 days ago, expected at most 30"
    await_end(admin, in_force + 1)
    assert not admin.get("/v1/state").json()["policy"]["use_forest"]


def test_what_is_off_stays_off_for_that_model_however_good_the_traffic(
    in_force, admin, service, flagging, records, old
):
    reported_wrong(service, records, old)
    first = flagging.look()
    await_end(admin, in_force + 1)
    for label in ("d", "e"):
        service.recordings.add(label, "h1", bounded(records, old.forest), None, 0)
    assert flagging.look() == first
    assert len(admin.get("/v1/rollouts").json()) == 2


def test_told_to_keep_bounds_it_keeps_them(in_force, admin, service, flagging, records, old):
    flagging.max_age_s = None
    reported_wrong(service, records, old)
    aged(service)
    assert flagging.look()["off"] is None
    service.store.set_setting("drift", flagging.look() | {"off": {"why": "old", "at": 0.0, "generation": in_force}})
    flagging.look()
    assert len(admin.get("/v1/rollouts").json()) == 1


def test_a_restart_in_the_middle_changes_nothing(in_force, admin, service, flagging, records, old):
    """Decided and not begun: begun again. In force: known, and left alone, though hosts report no bounds any more."""
    reported_wrong(service, records, old)
    begin, flagging.runner.start = flagging.runner.start, lambda *_, **__: 0
    off = flagging.look()["off"]
    assert admin.get("/v1/state").json()["policy"]["use_forest"]
    flagging.runner.start = begin
    again = Watch(service.store, service.recordings, service.runner, service.trainer, OnDrift.FLAG)
    assert again.look()["off"] == off
    await_end(admin, in_force + 1)
    again = Watch(service.store, service.recordings, service.runner, service.trainer, OnDrift.FLAG)
    assert again.look()["off"] == off
    assert len(admin.get("/v1/rollouts").json()) == 2


def test_while_a_rollout_runs_it_waits(in_force, admin, service, flagging, records, old):
    reported_wrong(service, records, old)
    number = admin.post("/v1/rollouts", json={"revision": 1}).json()["id"]
    flagging.look()
    assert len(admin.get("/v1/rollouts").json()) == 2
    await_end(admin, number)


def test_an_operator_who_rolls_the_same_bounds_out_again_has_them_counted_anew(
    in_force, admin, service, flagging, records, old
):
    reported_wrong(service, records, old)
    flagging.look()
    await_end(admin, in_force + 1)
    number = admin.post("/v1/rollouts", json={"revision": 1}).json()["id"]
    await_end(admin, number)
    found = flagging.look()
    assert (found["off"], found["windows"], found["drifted"]) == (None, [], None)
    assert admin.get("/v1/state").json()["policy"]["use_forest"]


def test_a_new_model_switches_bounds_on_again(in_force, admin, service, watch, records, old):
    reported_wrong(service, records, old)
    watch.on_drift = OnDrift.ROLLOUT
    offer = watch.look()["offer"]
    await_end(admin, in_force + 1)
    watch.look()
    await_end(admin, in_force + 2)
    policy = admin.get("/v1/state").json()["policy"]
    assert (policy["use_forest"], policy["model_generation"]) == (True, offer["model"])
    assert watch.look()["off"] is None
    assert "qclimb_bounds_off 0.0" in admin.get("/metrics").text


def test_for_a_model_too_old_one_that_holds_is_offered_though_it_is_no_better(
    in_force, admin, service, watch, records, old
):
    """Beside bounds that are off there is nothing to beat."""
    watch.trainer.instead = {"rival": train(kept_of(records), ["h1"] * len(records), 1, trees=12, depth=10).forest}
    service.recordings.add("b", "h1", bounded(records, old.forest), None, 0)
    assert watch.look()["offer"] is None
    aged(service)
    assert watch.look()["offer"]["model"] == 2


def test_a_damaged_model_does_not_keep_bounds_from_being_switched_off(in_force, admin, service, flagging):
    aged(service)
    with service.store.writing() as connection:
        connection.execute(update(tables.models).values(onnx=b"", forest=b""))
    flagging.look()
    await_end(admin, in_force + 1)
    assert not admin.get("/v1/state").json()["policy"]["use_forest"]


def test_a_policy_without_bounds_of_an_operators_own_is_left_alone(in_force, admin, service, flagging):
    made = admin.post("/v1/revisions", json={"mode": "qclimb", "label": "a", "model": 1, "use_forest": False})
    await_end(admin, admin.post("/v1/rollouts", json={"revision": made.json()["id"]}).json()["id"])
    aged(service)
    assert flagging.look()["off"] is None


def test_hosts_alone_are_told_only_instead_of_what_is_in_force_with_the_same_intent(in_force, admin, service):
    with pytest.raises(ConflictError, match=f"policy {in_force} is in force, expected {in_force + 5}"):
        service.runner.start(1, "root", instead_of=in_force + 5)
    made = admin.post("/v1/revisions", json={"mode": "pias", "label": "a", "priorities": 4}).json()
    with pytest.raises(ConflictError, match="expected the same"):
        service.runner.start(made["id"], "root", instead_of=in_force)
