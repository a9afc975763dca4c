"""The rollout as a value: what may happen next, whatever comes of each step."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.fabric.rollout import HostPhase, HostStep, Phase, Rollout, Steps, SwitchPhase, SwitchStep

OLD = {"qclimb:qclimb": {"config": {"generation": "6"}}}


def fresh(switches: int = 2, hosts: int = 2) -> Rollout:
    return Rollout(
        7,
        switches={f"s{n}": SwitchStep() for n in range(switches)},
        hosts={f"h{n}": HostStep() for n in range(hosts)},
    )


def test_switches_come_first_and_hosts_only_when_all_have_confirmed():
    rollout = fresh()
    assert rollout.next_steps() == Steps(push=("s0", "s1"))
    rollout = rollout.pushing("s0", OLD).pushing("s1", None).pushed("s0", 7)
    assert rollout.next_steps() == Steps()
    rollout = rollout.pushed("s1", 7)
    assert rollout.next_steps() == Steps(activate=True)
    assert all(host.phase is HostPhase.PENDING for host in rollout.hosts.values())
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
    assert [step.phase for step in rollout.switches.values()] == [
        SwitchPhase.RESTORED,
        SwitchPhase.FAILED,
        SwitchPhase.PENDING,
    ]
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


def test_a_restart_while_switches_change_turns_back():
    rollout = fresh(3).pushing("s0", OLD).pushed("s0", 7).pushing("s1", OLD).interrupted()
    assert rollout.next_steps() == Steps(restore=("s0", "s1"))
    assert "restarted" in rollout.error
    assert fresh().interrupted().phase is Phase.ROLLED_BACK


def test_a_restart_while_hosts_fetch_leaves_the_policy_in_force_and_says_so():
    rollout = fresh(0).activated().interrupted()
    assert (rollout.phase, rollout.active) == (Phase.FAILED, True)
    assert "in force" in rollout.error
    done = fresh(0, 0).activated()
    assert done.interrupted() is done


@settings(max_examples=200, deadline=None)
@given(data=st.data(), switches=st.integers(0, 4), hosts=st.integers(0, 3))
def test_every_course_ends_and_keeps_its_promises(data, switches, hosts):
    """Whatever fails or restarts: an end is reached, hosts are told only when all switches have confirmed."""
    rollout = fresh(switches, hosts)
    under_way: list[tuple[str, str]] = []
    for turn in range(100):
        assert Rollout.from_json(rollout.to_json()) == rollout
        if rollout.active:
            assert all(step.phase is SwitchPhase.APPLIED for step in rollout.switches.values())
        if rollout.phase is not Phase.RUNNING:
            break
        steps = rollout.next_steps()
        under_way += [("push", name) for name in steps.push if ("push", name) not in under_way]
        under_way += [("restore", name) for name in steps.restore if ("restore", name) not in under_way]
        if steps.activate:
            rollout = rollout.activated()
        elif rollout.active:
            host = data.draw(st.sampled_from(["late", *rollout.hosts]))
            rollout = rollout.hosts_ran_out(1) if host == "late" or turn > 50 else rollout.host_reported(host, 7)
        elif data.draw(st.integers(0, 9)) == 0:
            rollout = rollout.interrupted()
            under_way = []
        elif under_way:
            what, name = under_way.pop(data.draw(st.integers(0, len(under_way) - 1)))
            good = data.draw(st.booleans())
            if what == "push":
                if rollout.turned_back:
                    continue
                rollout = rollout.pushing(name, OLD)
                rollout = (
                    rollout.pushed(name, 7)
                    if good
                    else rollout.push_failed(name, "x", changed=data.draw(st.booleans()))
                )
            else:
                rollout = rollout.restoring(name)
                rollout = rollout.restored(name, 6) if good else rollout.restore_failed(name, "y")
    else:
        pytest.fail(f"no end: {rollout}")
    left = {step.phase for step in rollout.switches.values()}
    assert not left & {SwitchPhase.PUSHING, SwitchPhase.RESTORING, SwitchPhase.UNSURE}
    if rollout.phase is Phase.ROLLED_BACK:
        assert SwitchPhase.APPLIED not in left
