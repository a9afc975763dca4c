"""Health gates by what hosts feel: when a rollout is undone, and that changing traffic alone undoes none."""

import math
import time

import numpy as np
import pytest
from qclimb.errors import RecordError
from qclimb.policy import Mode
from qclimb.stretch import CONNECTIONS_MOST, LOG_MOST, Stretch, StretchSum

from orchestrator.actors import Actor
from orchestrator.fabric.door import ClassCount, Told
from orchestrator.fabric.felt import SLOWDOWN_MOST, Compared, Felt
from orchestrator.fabric.rollout import Pace
from orchestrator.fabric.runner import Runner
from orchestrator.plan.revision import compose
from orchestrator.store.generations import number_of
from orchestrator.watch.health import HealthWatch, is_undoing
from tests.orchestrator.fleet import Switches, ended, kept
from tests.waiting import wait_until

HOSTS = [f"h{number}" for number in range(20)]


class Fabric:
    """Hosts that look every 5 s; their stretch is random, about `level`, and each host has a level of its own."""

    def __init__(self, felt: Felt, seed: int = 0) -> None:
        self.felt, self.random, self.now_s = felt, np.random.default_rng(seed), 1000.0
        self.own = dict(zip(HOSTS, self.random.uniform(0.5, 2, len(HOSTS)), strict=True))

    def pass_time(self, seconds: float, level: float, slow: tuple[str, ...] = (), by: float = 1.0) -> None:
        for _ in range(round(seconds / 5)):
            self.now_s += 5
            for host in HOSTS:
                noise = math.exp(self.random.normal(0, 0.3))
                mean = 1 + level * self.own[host] * noise * (by if host in slow else 1)
                self.felt.add(host, Stretch(int(self.random.integers(1, 50)), math.log(mean)), self.now_s)

    def baseline(self) -> dict[str, float]:
        return {host: self.felt.worst(host, self.now_s) for host in HOSTS}


def test_twenty_rollouts_of_one_revision_under_changing_traffic_trip_no_gate():
    fabric = Fabric(Felt())
    loads = [0.1, 0.3, 0.5, 0.7, 0.9]
    fabric.pass_time(120, 0.5)
    tripped, compared = [], 0
    for rollout in range(20):
        before, since = fabric.baseline(), fabric.now_s
        load = loads[rollout % len(loads)]
        fabric.pass_time(60, load / (1 - load) / 4)  # what waits before a first-served packet grows with the load
        found = fabric.felt.slower(before, since, SLOWDOWN_MOST)
        compared += found.hosts
        tripped += [found.reason] if found.reason else []
    assert (tripped, compared) == ([], 20 * len(HOSTS))


def test_small_flows_that_wait_ten_times_as_long_trip_it_and_one_host_of_many_does_not():
    fabric = Fabric(Felt())
    fabric.pass_time(120, 0.5)
    before, since = fabric.baseline(), fabric.now_s
    fabric.pass_time(30, 0.5, slow=("h3",), by=30)
    assert fabric.felt.slower(before, since, SLOWDOWN_MOST).reason is None
    since = fabric.now_s
    fabric.pass_time(30, 0.5, slow=("h3", "h7"), by=30)
    reason = fabric.felt.slower(before, since, SLOWDOWN_MOST).reason
    assert reason is not None and reason.startswith("small flows of 2 of 20 hosts are slower than before (")


@pytest.mark.parametrize("hosts", [1, 2, 3, 8, 20])
def test_no_one_host_undoes_a_rollout_whatever_it_reports(hosts):
    felt, names = Felt(), HOSTS[:hosts]
    for at in range(0, 200, 5):
        for name in names:
            felt.add(name, Stretch(1, 0.0), at)
    before = {name: felt.worst(name, 200) for name in names}
    for at in range(200, 260, 5):
        for name in names[1:]:
            felt.add(name, Stretch(1, 0.0), at)
        for _ in range(50):
            felt.add(names[0], Stretch(CONNECTIONS_MOST, LOG_MOST), at)
    found = felt.slower(before, 200, SLOWDOWN_MOST)
    assert (found.hosts, list(found.slower), found.reason) == (hosts, names[:1], None)


def test_a_reason_names_the_hosts_and_connections_that_it_rests_on():
    slower = {"h1": 4.0, "h2": 900.0, "h3": 5.0}
    reason = Compared(8, 240, slower).reason
    assert reason is not None and "3 of 8 hosts" in reason and "5.0 times" in reason and "240 connections" in reason
    assert Compared(120, 240, dict.fromkeys(("h1", "h2"), 9.0)).reason is None
    assert Compared(0, 0, {}).reason is None


def test_a_host_that_is_forgotten_or_silent_for_long_counts_no_more():
    felt = Felt()
    looks(felt, 2, *range(0, 60, 5))
    felt.add("h2", Stretch(1, 0.0), 60)
    assert len(felt) == 2
    felt.forget("h1")
    assert (felt.worst("h1", 60), len(felt)) == (0, 1)
    felt.add("h3", Stretch(1, 0.0), 1000)
    assert len(felt) == 1, "h2 was silent for longer than a baseline goes back"


def test_nothing_rests_on_a_host_that_is_registered_no_more(admin, service):
    told = {"stretch": {"connections": 3, "log_mean": 0.5}}
    admin.post("/v1/hosts/h1/records", json=told).raise_for_status()
    assert len(service.runner.felt) == 1
    admin.delete("/v1/hosts/h1").raise_for_status()
    assert len(service.runner.felt) == 0
    service._felt("h1", Stretch(3, 0.5))  # its last delivery came late
    assert len(service.runner.felt) == 0


def test_a_number_of_connections_that_no_host_has_is_refused(admin, service):
    for connections in (0, -1, CONNECTIONS_MOST + 1, 4_294_967_295, 10**30, 1.5, True, None):
        told = {"stretch": {"connections": connections, "log_mean": 0.5}}
        assert admin.post("/v1/hosts/h1/records", json=told).status_code == 422, connections
    assert len(service.runner.felt) == 0


def test_what_another_revision_did_to_flows_excuses_nothing():
    fabric = Fabric(Felt())
    fabric.pass_time(125, 20)  # no priorities: small flows wait behind large ones, in a window that is open still, too
    fabric.felt.begin(fabric.baseline(), fabric.now_s)
    fabric.pass_time(70, 0.5)
    before, since = fabric.baseline(), fabric.now_s
    fabric.pass_time(30, 20)
    assert fabric.felt.slower(before, since, SLOWDOWN_MOST).reason is not None


def test_until_enough_is_known_of_a_new_revision_the_earlier_baseline_holds():
    fabric = Fabric(Felt())
    fabric.pass_time(120, 2)
    earlier = fabric.baseline()
    fabric.felt.begin(earlier, fabric.now_s)
    fabric.pass_time(40, 0.5)
    assert fabric.baseline() == earlier
    fabric.pass_time(30, 0.5)
    assert all(fabric.baseline()[host] < earlier[host] for host in HOSTS)
    fabric.felt.begin({}, fabric.now_s)
    fabric.pass_time(20, 0.5)
    assert set(fabric.baseline().values()) == {0.0}
    fabric.felt.begin(earlier, fabric.now_s)
    fabric.now_s += 3600
    assert set(fabric.baseline().values()) == {0.0}  # of an hour ago


def looks(felt: Felt, mean: float, *at_s: int) -> None:
    for each in at_s:
        felt.add("h1", Stretch(1, math.log(mean)), each)


def test_an_earlier_baseline_is_gone_once_enough_is_known_and_after_some_minutes_in_any_case():
    felt = Felt()
    looks(felt, 9, *range(150, 220, 5))
    felt.begin({"h1": 9.0}, 220)
    looks(felt, 2, *range(230, 300, 10))
    assert felt.worst("h1", 299) == pytest.approx(2)
    looks(felt, 2, 440, 460)
    assert felt.worst("h1", 461) == 0, "little is known of late"
    felt.begin({"h1": 9.0}, 470)
    looks(felt, 2, *range(500, 800, 140))
    assert felt.worst("h1", 770) == 9
    looks(felt, 2, 790)
    assert felt.worst("h1", 791) == 0


def test_one_bad_window_trips_nothing_and_what_was_felt_before_does_not_count():
    fabric = Fabric(Felt())
    fabric.pass_time(120, 0.5)
    before = fabric.baseline()
    fabric.pass_time(60, 0.5, slow=tuple(HOSTS), by=30)
    assert fabric.felt.slower(before, fabric.now_s, SLOWDOWN_MOST).hosts == 0
    since = fabric.now_s
    fabric.pass_time(10, 0.5, slow=tuple(HOSTS), by=30)
    fabric.pass_time(20, 0.5)
    found = fabric.felt.slower(before, since, SLOWDOWN_MOST)
    assert (found.hosts, found.reason) == (len(HOSTS), None)


def test_a_baseline_goes_back_some_minutes_and_is_unknown_where_little_was_told():
    felt = Felt()
    assert felt.worst("h1", 0) == 0
    for second in range(0, 40, 5):
        felt.add("h1", Stretch(1, math.log(9)), second)
    assert felt.worst("h1", 40) == pytest.approx(9)
    for second in range(40, 400, 5):
        felt.add("h1", Stretch(1, math.log(2)), second)
    assert felt.worst("h1", 400) == pytest.approx(2)
    assert felt.worst("h1", 2000) == 0, "it has been silent"
    felt.add("h2", Stretch(1, 0.0), 400)
    assert felt.worst("h2", 401) == 0


def test_stretches_add_up_by_connections_and_what_can_not_be_is_refused():
    both = StretchSum().plus(Stretch(1, math.log(2))).plus(Stretch(3, math.log(4)))
    assert (both.connections, both.connections_each, both.mean) == (4, 2, pytest.approx(2 ** (7 / 4)))
    assert Stretch.from_json(Stretch(3, 0.5).to_json()) == Stretch(3, 0.5)
    assert StretchSum().mean == 1
    for wrong in ({"connections": 0, "log_mean": 1}, {"connections": 1, "log_mean": math.nan}, {"connections": 1}, []):
        with pytest.raises(RecordError):
            Stretch.from_json(wrong)


@pytest.fixture
def runner(store):
    found = Runner(store, Switches())
    yield found
    found.close()


def idle(store, runner, number: int) -> None:
    """Until the rollout is done, and the runner has let go of it."""
    assert ended(store, number).phase == "done"
    wait_until(lambda: runner.running is None, "the runner lets go of it")


def rolled_out(store, runner, revision: int, **pace) -> int:
    number = runner.start(revision, "test", pace=Pace(**pace))
    idle(store, runner, number)
    return number


def felt(runner, stretch: float, begin_s: float, end_s: float) -> None:
    for at in np.arange(begin_s, end_s, 5):
        for host in ("h1", "h2"):
            runner.felt.add(host, Stretch(5, math.log(stretch)), float(at))


def test_a_revision_that_makes_small_flows_slow_is_rolled_back_by_itself(store, runner, monkeypatch):
    clock = [10_000.0]
    monkeypatch.setattr("orchestrator.fabric.runner.time.monotonic", lambda: clock[0])
    store.put_switch("l1", "192.0.2.1:9339", "leaf", None)
    good, bad = (
        store.add_revision("test", compose(Mode.PIAS, (limit,), 2, slack_bytes=0).to_json()) for limit in (5000, 9)
    )
    watch = HealthWatch(store, runner, watched_least_s=60, clock=lambda: clock[0])
    rolled_out(store, runner, good)
    for host in ("h1", "h2"):
        store.put_host(host)
    clock[0] += 110
    felt(runner, 1.5, clock[0] - 100, clock[0])
    number = runner.start(bad, "test")
    while (store.setting("policy") or {})["generation"] != number:
        pass
    for host in ("h1", "h2"):
        runner.host_reported(host, number)
    idle(store, runner, number)
    before = [step["felt_before"] for step in kept(store, number).document["hosts"].values()]
    assert before == [pytest.approx(1.5)] * 2
    watch.look()
    clock[0] += 40
    felt(runner, 20, clock[0] - 40, clock[0])
    watch.look()
    back = store.last_rollout()
    assert (back.revision, back.created_by) == (good, Actor.HEALTH)
    assert is_undoing(back) and not is_undoing(store.rollout(number))
    assert f"{number} by {back.id} to revision {good}: small flows of 2 of 2 hosts" in store.notes(1)[0].subject
    for host in ("h1", "h2"):
        runner.host_reported(host, back.id)
    while (store.setting("policy") or {})["generation"] != back.id:
        pass
    for host in ("h1", "h2"):
        runner.host_reported(host, back.id)
    idle(store, runner, back.id)
    clock[0] += 40
    felt(runner, 20, clock[0] - 40, clock[0])
    watch.look()
    assert store.last_rollout().id == back.id, "going back is not undone"


@pytest.mark.parametrize(("age_s", "judged"), [(0, True), (3600, False), (None, False)])
def test_a_process_that_begins_long_after_a_rollout_does_not_judge_it(store, runner, age_s, judged):
    """By what hosts felt before it, which is of another day; None: an older version kept no time."""
    document = compose(Mode.PIAS, (5000,), 2, slack_bytes=0).to_json()
    good, bad = store.add_revision("test", document), store.add_revision("test", document)
    for host in ("h1", "h2"):
        store.put_host(host)
    for revision in (good, bad):
        number = runner.start(revision, "test")
        wait_until(
            lambda number=number: number_of((store.setting("policy") or {}).get("generation", 0)) == number,
            "hosts' turn comes",
        )
        for host in ("h1", "h2"):
            runner.host_reported(host, store.setting("policy")["generation"])
        idle(store, runner, number)
    steps = {host: {**step, "felt_before": 1.5} for host, step in store.steps(number)["hosts"].items()}
    at = None if age_s is None else time.time() - age_s
    store.save_rollout(
        number, "done", {**store.rollout(number).document, "active_at": at, "switches": {}, "hosts": steps}
    )
    now = [time.monotonic()]
    watch = HealthWatch(store, runner, watched_least_s=60, clock=lambda: now[0])
    watch.look()
    felt(runner, 20, now[0], now[0] + 40)
    now[0] += 40
    watch.look()
    assert (store.last_rollout().id != number) is judged


def test_a_wave_whose_hosts_feel_worse_is_undone_before_the_next_one(store, runner):
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    for name in ("h1", "h2"):
        store.put_host(name)
    revision = store.add_revision("test", compose(Mode.PIAS, (5000,), 2, slack_bytes=0).to_json())
    runner.felt.worst = lambda name, now: 1.5
    runner.felt.slower = lambda before, since, most: Compared(len(before), 9, dict.fromkeys(before, 9.0))
    number = runner.start(revision, "test", pace=Pace((0.5,)))
    found = ended(store, number)
    assert found.phase == "rolled-back"
    assert found.document["error"].startswith("after wave 1: small flows of 2 of 2 hosts are slower than before")
    assert [name for name, generation in runner.fleet.given] == ["l1", "l1"]
    careless = runner.start(revision, "test", pace=Pace((0.5,), slowdown_most=None))
    while (store.setting("policy") or {}).get("generation") != careless:
        pass
    for name in ("h1", "h2"):
        runner.host_reported(name, careless)
    assert ended(store, careless).phase == "done"


class Dropping(Switches):
    """l1 sends 10,000 packets of the first priority between two looks, and drops a share of them."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share, self.looks = share, 0

    def counts(self, switch):
        if switch.name != "l1":
            return Told("", {})
        self.looks += 1
        dropped = round(10_000 * self.share)
        return Told("", {}, {0: ClassCount(None, (10_000 - dropped) * self.looks, 5 + dropped * self.looks)})


@pytest.mark.parametrize(("share", "phase"), [(0.005, "running"), (0.02, "rolled-back")])
def test_a_wave_whose_switches_drop_small_flows_packets_is_undone(store, share, phase):
    for name in ("l1", "l2"):
        store.put_switch(name, "192.0.2.1:9339", "leaf", None)
    store.put_host("h1")
    revision = store.add_revision("test", compose(Mode.PIAS, (5000,), 2, slack_bytes=0).to_json())
    runner = Runner(store, Dropping(share))
    number = runner.start(revision, "test", pace=Pace((0.5,), soak_s=0.3))
    wait_until(
        lambda: store.setting("policy") or store.rollout(number).phase != "running", "hosts' turn comes, or the end"
    )
    assert store.rollout(number).phase == phase
    error = store.rollout(number).document["error"]
    if phase == "rolled-back":
        assert error == (
            "after wave 1: switch l1: dropped 2.00% of the first priority's packets (200 of 10000), "
            "expected at most 1.00%"
        )
    runner.close()
