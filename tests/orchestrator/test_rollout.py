"""The rollout as a value: what may happen next, whatever comes of each step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.fabric.devices import Devices
from orchestrator.fabric.rollout import (
    BEGUN,
    OPEN,
    HostPhase,
    HostStep,
    Pace,
    Phase,
    Plan,
    Rollout,
    Steps,
    SwitchPhase,
    SwitchStep,
)
from tests.tiers import examples

OLD = {"qclimb:qclimb": {"config": {"generation": "6"}}}


def fresh(switches: int = 2, hosts: int = 2, plan: Plan | None = None) -> Rollout:
    return Rollout(
        7,
        plan=plan or Plan(),
        switches=Devices.of({f"s{n}": SwitchStep() for n in range(switches)}),
        hosts=Devices.of({f"h{n}": HostStep() for n in range(hosts)}),
    )


def phases(rollout: Rollout) -> list[SwitchPhase]:
    return [rollout.switches[name].phase for name in sorted(rollout.switches.steps)]


def test_switches_come_first_and_hosts_only_when_all_have_confirmed():
    rollout = fresh()
    assert rollout.next_steps() == Steps(push=("s0", "s1"))
    rollout = rollout.pushing("s0", OLD).pushing("s1", None).pushed("s0", 7)
    assert rollout.next_steps() == Steps()
    rollout = rollout.pushed("s1", 7)
    assert rollout.next_steps() == Steps(activate=True)
    assert rollout.hosts.count(HostPhase.PENDING) == 2
    rollout = rollout.activated()
    assert rollout.next_steps() == Steps()
    rollout = rollout.host_reported("h0", 6).host_reported("h0", 7)
    assert rollout.phase is Phase.RUNNING
    rollout = rollout.host_reported("h1", 7)
    assert rollout.phase is Phase.DONE


def test_after_a_refusal_the_others_get_back_what_they_had_and_no_host_hears_of_it():
    rollout = fresh(3).pushing("s0", OLD).pushing("s1", OLD).push_failed("s1", "no", changed=False)
    assert rollout.next_steps() == Steps()  # s0 is under way; s2 is not even begun
    rollout = rollout.pushed("s0", 7)
    assert rollout.next_steps() == Steps(restore=("s0",))
    rollout = rollout.restoring("s0").restored("s0", 6)
    assert (rollout.phase, rollout.error, rollout.active) == (Phase.ROLLED_BACK, "no", False)
    assert phases(rollout) == [SwitchPhase.RESTORED, SwitchPhase.FAILED, SwitchPhase.PENDING]
    assert rollout.switches["s0"].applied_generation == 6


def test_a_switch_that_may_have_changed_is_restored_too():
    rollout = fresh(1).pushing("s0", OLD).push_failed("s0", "no answer", changed=True)
    assert rollout.next_steps() == Steps(restore=("s0",))
    stranded = rollout.restoring("s0").restore_failed("s0", "unreachable")
    assert stranded.phase is Phase.FAILED
    assert stranded.switches["s0"].phase is SwitchPhase.STRANDED
    assert stranded.switches["s0"].error == "no answer; then, giving back its former intent: unreachable"


def test_silent_hosts_fail_the_rollout_by_name_and_leave_the_policy_in_force():
    rollout = fresh(0).activated().host_reported("h0", 7).hosts_ran_out(5)
    assert rollout.phase is Phase.FAILED
    assert rollout.active
    assert "h1" in rollout.error and "h0" not in rollout.error
    assert rollout.hosts["h1"].phase is HostPhase.FAILED


def test_a_host_that_reports_this_generation_before_it_is_in_force_does_not_count():
    assert fresh().host_reported("h0", 7).hosts["h0"].phase is HostPhase.PENDING


def test_without_devices_it_is_done_at_once():
    assert fresh(0, 0).next_steps() == Steps(activate=True)
    assert fresh(0, 0).activated().phase is Phase.DONE


def test_a_restart_goes_on_and_keeps_what_a_switch_had_before_the_first_push():
    rollout = fresh(3).pushing("s0", OLD).pushed("s0", 7).pushing("s1", OLD).restarted()
    assert phases(rollout) == [SwitchPhase.APPLIED, SwitchPhase.PENDING, SwitchPhase.PENDING]
    assert rollout.next_steps() == Steps(push=("s1", "s2"))
    rollout = rollout.pushing("s1", {"qclimb:qclimb": {"config": {"generation": "7"}}})
    assert rollout.switches["s1"].previous == OLD
    failed = rollout.push_failed("s1", "no", changed=False)  # the process before may have had it taken
    assert failed.next_steps() == Steps(restore=("s0", "s1"))


def test_a_restart_while_switches_are_given_back_gives_them_back():
    rollout = fresh(2).pushing("s0", OLD).pushed("s0", 7).pushing("s1", OLD).push_failed("s1", "no", changed=True)
    assert rollout.restoring("s0").restarted().next_steps() == Steps(restore=("s0", "s1"))
    under_way = fresh(2).pushing("s0", OLD).pushing("s1", OLD).push_failed("s1", "no", changed=False)
    assert under_way.restarted().next_steps() == Steps(restore=("s0",))


def test_a_restart_while_hosts_fetch_awaits_them():
    rollout = fresh(0).activated().host_reported("h0", 7).restarted()
    assert (rollout.phase, rollout.active, rollout.next_steps()) == (Phase.RUNNING, True, Steps())
    assert rollout.host_reported("h1", 7).phase is Phase.DONE


def test_absent_switches_are_left_out_as_many_as_the_plan_allows():
    rollout = fresh(3, plan=Plan(absent_most=1)).push_failed("s1", "no route", changed=False, absent=True)
    assert phases(rollout) == [SwitchPhase.PENDING, SwitchPhase.ABSENT, SwitchPhase.PENDING]
    rollout = rollout.pushing("s0", OLD).pushed("s0", 7)
    assert rollout.pushing("s2", OLD).pushed("s2", 7).next_steps() == Steps(activate=True)
    back = rollout.push_failed("s2", "no route", changed=False, absent=True)
    assert (back.turned_back, back.next_steps()) == (True, Steps(restore=("s0",)))


def test_waves_open_one_after_the_other_and_only_when_the_last_has_settled():
    rollout = fresh(5, plan=Plan(waves=(1, 3)))
    assert rollout.next_steps() == Steps(push=("s0",))
    rollout = rollout.pushing("s0", OLD)
    assert rollout.next_steps() == Steps()
    rollout = rollout.pushed("s0", 7)
    assert rollout.next_steps() == Steps(open_wave=True)
    rollout = rollout.wave_opened(0)
    assert rollout.wave_opened(0) is rollout  # said twice
    assert rollout.next_steps() == Steps(push=("s1", "s2"))
    rollout = rollout.pushing("s1", OLD).pushing("s2", OLD).pushed("s1", 7).pushed("s2", 7).wave_opened(1)
    assert rollout.next_steps() == Steps(push=("s3", "s4"))


def test_what_a_switch_would_undo_is_confirmed_when_all_have_it_and_before_any_host_hears_of_it():
    rollout = fresh().pushing("s0", OLD).pushed("s0", 7, is_pending=True)
    assert rollout.next_steps() == Steps(push=("s1",))
    rollout = rollout.pushing("s1", OLD).pushed("s1", 7, is_pending=True)
    assert rollout.next_steps() == Steps(confirm=("s0", "s1"))
    rollout = rollout.confirmed("s0")
    assert rollout.confirmed("s0") is rollout
    assert rollout.next_steps() == Steps(confirm=("s1",))
    assert rollout.confirmed("s1").next_steps() == Steps(activate=True)


def test_a_wave_is_confirmed_once_its_switches_were_looked_at_and_before_the_next_begins():
    rollout = fresh(3, plan=Plan(waves=(1,))).pushing("s0", OLD).pushed("s0", 7, is_pending=True)
    assert rollout.next_steps() == Steps(open_wave=True)
    rollout = rollout.wave_opened(0)
    assert rollout.wave_opened(0) is rollout
    assert rollout.next_steps() == Steps(confirm=("s0",))
    assert rollout.confirmed("s0").next_steps() == Steps(push=("s1", "s2"))


def test_a_paused_rollout_confirms_what_it_has_told():
    rollout = fresh(3, plan=Plan(waves=(1,))).pushing("s0", OLD).pushed("s0", 7, is_pending=True).paused()
    assert rollout.next_steps() == Steps(confirm=("s0",))
    assert rollout.confirmed("s0").resumed().next_steps() == Steps(open_wave=True)


def test_a_switch_that_takes_no_confirmation_turns_the_rollout_back():
    rollout = fresh().pushing("s0", OLD).pushed("s0", 7, is_pending=True).pushing("s1", OLD)
    rollout = rollout.pushed("s1", 7, is_pending=True).confirmed("s0").confirm_failed("s1", "gone")
    assert (rollout.turned_back, rollout.error) == (True, "gone")
    assert rollout.next_steps() == Steps(restore=("s0", "s1"))
    assert rollout.confirmed("s1") is rollout.confirm_failed("s1", "again") is rollout  # too late


def test_a_restart_tells_a_switch_again_that_was_not_confirmed():
    rollout = fresh().pushing("s0", OLD).pushed("s0", 7, is_pending=True).restarted()
    assert rollout.next_steps() == Steps(push=("s0", "s1"))
    assert rollout.pushing("s0", None).switches["s0"].previous == OLD
    back = fresh(1).pushing("s0", OLD).pushed("s0", 7, is_pending=True).turned("a person").restarted()
    assert back.next_steps() == Steps(restore=("s0",))


def test_a_canary_that_is_away_is_no_canary():
    rollout = fresh(3, plan=Plan(waves=(1,), absent_most=1)).push_failed("s0", "away", changed=False, absent=True)
    assert rollout.next_steps() == Steps(push=("s1",))


def test_what_is_paused_begins_nothing_and_may_be_resumed_or_aborted():
    rollout = fresh(2).pushing("s0", OLD).paused()
    assert (rollout.phase, rollout.next_steps()) == (Phase.PAUSED, Steps())
    assert rollout.pushing("s1", OLD) is rollout
    rollout = rollout.pushed("s0", 7)
    assert rollout.resumed().next_steps() == Steps(push=("s1",))
    aborted = rollout.turned("aborted by root")
    assert (aborted.phase, aborted.error) == (Phase.RUNNING, "aborted by root")
    assert aborted.next_steps() == Steps(restore=("s0",))
    active = fresh(0).activated()
    assert active.paused() is active and active.turned("aborted by root") is active


@pytest.mark.parametrize(
    ("shares", "switches", "waves"),
    [((0.01, 0.1, 0.5), 1000, (10, 100, 500)), ((0.01, 0.1), 8, (1,)), ((0.5, 1), 4, (2,)), ((), 4, ())],
)
def test_waves_are_shares_of_the_switches_each_at_least_one(shares, switches, waves):
    assert Pace(waves=shares).plan(switches).waves == waves


def test_one_switch_in_twenty_may_be_away_unless_it_is_said():
    assert [Pace().plan(n).absent_most for n in (0, 19, 20, 100)] == [0, 0, 1, 5]
    assert Pace(absent_most=3).plan(4).absent_most == 3


def test_only_devices_that_changed_are_written_again():
    rollout = fresh(1000, 1000).saved().pushing("s7", OLD)
    document = rollout.to_json()
    assert (list(document["switches"]), list(document["hosts"])) == (["s7"], [])
    assert rollout.saved().to_json()["switches"] == {}


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data(), switches=st.integers(0, 4), hosts=st.integers(0, 3))
def test_every_course_ends_and_keeps_its_promises(data, switches, hosts):
    """Whatever fails, restarts or is asked: an end is reached; hosts are told only when all switches have confirmed."""
    waves = data.draw(st.lists(st.floats(0.01, 1), max_size=3).map(sorted))
    rollout = fresh(switches, hosts, Pace(tuple(waves), absent_most=data.draw(st.integers(0, 2))).plan(switches))
    kept = {"switches": {}, "hosts": {}}
    under_way: list[tuple[str, str]] = []
    for turn in range(200):
        document = rollout.to_json()
        for kind, of in kept.items():
            of.update(document[kind])
        rollout = rollout.saved()
        assert Rollout.from_json({**document, **kept}) == rollout
        assert all(rollout.switches.count(phase) == phases(rollout).count(phase) for phase in SwitchPhase)
        if rollout.active:
            away = rollout.switches.count(SwitchPhase.ABSENT)
            assert rollout.switches.count(SwitchPhase.APPLIED) + away == switches
            assert away <= rollout.plan.absent_most
        if rollout.ended:
            break
        steps = rollout.next_steps()
        if not rollout.turned_back and not rollout.active:
            begun = rollout.switches.count(*BEGUN) + len(steps.push)
            assert begun <= (*rollout.plan.waves, switches)[rollout.wave]
        under_way += [("push", name) for name in steps.push if ("push", name) not in under_way]
        under_way += [("confirm", name) for name in steps.confirm if ("confirm", name) not in under_way]
        under_way += [("restore", name) for name in steps.restore if ("restore", name) not in under_way]
        happens = data.draw(st.integers(0, 11)) if turn < 100 else 11
        if happens == 0:
            rollout, under_way = rollout.restarted(), []
        elif happens == 1:
            rollout = rollout.paused()
        elif happens == 2 and data.draw(st.booleans()):
            rollout = rollout.turned("a person")
        elif rollout.phase is Phase.PAUSED:
            rollout = rollout.resumed()
        elif steps.activate:
            rollout = rollout.activated()
        elif steps.open_wave:
            good = data.draw(st.integers(0, 3))
            rollout = rollout.wave_opened(rollout.wave) if good else rollout.turned("unwell")
        elif rollout.active:
            host = data.draw(st.sampled_from(["late", *rollout.hosts.steps]))
            rollout = rollout.hosts_ran_out(1) if host == "late" or turn > 50 else rollout.host_reported(host, 7)
        elif under_way:
            what, name = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            rollout = _comes_of(data, rollout, what, name)
    else:
        pytest.fail(f"no end: {rollout}")
    left = set(phases(rollout))
    assert rollout.phase not in OPEN
    assert not left & {SwitchPhase.PUSHING, SwitchPhase.COMMITTED, SwitchPhase.RESTORING, SwitchPhase.UNSURE}
    if rollout.phase is Phase.ROLLED_BACK:
        assert SwitchPhase.APPLIED not in left


def _comes_of(data, rollout: Rollout, what: str, name: str) -> Rollout:
    good = data.draw(st.booleans())
    if what == "restore":
        rollout = rollout.restoring(name)
        return rollout.restored(name, 6) if good else rollout.restore_failed(name, "y")
    if what == "confirm":
        return rollout.confirmed(name) if good else rollout.confirm_failed(name, "z")
    if rollout.turned_back:
        return rollout
    if not data.draw(st.integers(0, 4)):
        return rollout.push_failed(name, "away", changed=False, absent=True)
    rollout = rollout.pushing(name, OLD)
    changed = data.draw(st.booleans())
    is_pending = data.draw(st.booleans())
    return rollout.pushed(name, 7, is_pending=is_pending) if good else rollout.push_failed(name, "x", changed=changed)
