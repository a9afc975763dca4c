"""The boundary's table by itself, state x event -> action: no socket, no clock, no policy (boundary/step.h)."""

import json
import subprocess
from itertools import product

import pytest
from stand import ROOT

STATES = ("CALM", "LATE", "LENT", "HELD")
EVENTS = ("FREE", "SAME", "PAST", "AHEAD", "CLEAR", "WORTH", "VAIN", "FULL", "OVER", "STOP", "HUNG")
ACTIONS = ("MARK", "GIVE", "LEND_LOWAT", "LEND_SNDBUF", "LEND_CORK", "KEEP")
THEN = ("GO", "PIECE", "HOLD", "AGAIN", "REFUSE")
LENDS = {"LEND_LOWAT": "LATE", "LEND_SNDBUF": "LENT", "LEND_CORK": "HELD"}


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """(state, event) -> (actions, then), as the header has them."""
    place = tmp_path_factory.mktemp("step")
    rows = ", ".join(f"{{{s}, {e}}}" for s, e in product(STATES, EVENTS))
    bits = "".join(f" | ((boundary_steps[s][e].actions & {name}) ? {1 << n} : 0)" for n, name in enumerate(ACTIONS))
    thens = "".join(f"boundary_steps[s][e].then == {name} ? {n} : " for n, name in enumerate(THEN)) + "-1"
    (place / "t.c").write_text(
        f'#include <stdio.h>\n#include "boundary/step.h"\nint main(void)\n{{\n'
        f"int at[][2] = {{{rows}}}; _Static_assert(BOUNDARY_STATES == {len(STATES)}, "
        f'"states"); _Static_assert(BOUNDARY_EVENTS == {len(EVENTS)}, "events");\n'
        f"for (unsigned i = 0; i < sizeof(at) / sizeof(*at); i++) {{ int s = at[i][0], e = at[i][1];\n"
        f'printf("%s[%d, %d]", i ? "," : "[", 0{bits}, {thens}); }}\nputs("]"); return 0;\n}}\n'
    )
    subprocess.run(["cc", "-I", ROOT / "hostlib" / "shim", "-o", place / "t", place / "t.c"], check=True)
    told = json.loads(subprocess.check_output([place / "t"]))
    return {
        pair: ({name for n, name in enumerate(ACTIONS) if bits >> n & 1}, THEN[then])
        for pair, (bits, then) in zip(product(STATES, EVENTS), told, strict=True)
    }


def after(state, actions):
    """The state that actions lead to: what is given back is calm, what is lent names the state."""
    lent = [LENDS[name] for name in LENDS if name in actions]
    assert len(lent) <= 1
    return lent[0] if lent else "CALM" if "GIVE" in actions else state


def test_what_is_lent_is_given_back_unless_more_is_to_come_of_it(steps):
    kept = {pair for pair, (actions, _) in steps.items() if pair[0] != "CALM" and "GIVE" not in actions}
    assert kept == {("LATE", "AHEAD"), ("LENT", "WORTH"), *((state, "FULL") for state in STATES[1:])}
    assert all("GIVE" not in actions for (state, _), (actions, _) in steps.items() if state == "CALM")


def test_a_caller_gets_nothing_only_where_it_would_wait_or_its_call_ends(steps):
    refused = {event for (_, event), (_, then) in steps.items() if then == "REFUSE"}
    assert refused == {"FULL", "STOP"}


def test_nothing_is_marked_before_a_drain_is_over(steps):
    marked = {event for (_, event), (actions, _) in steps.items() if "MARK" in actions}
    assert marked.isdisjoint({"FREE", "SAME", "WORTH", "FULL", "OVER", "STOP", "HUNG"})
    assert all("MARK" not in steps[state, "VAIN"][0] for state in ("LENT", "HELD"))


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", STATES)
def test_no_event_that_comes_again_and_again_keeps_a_caller_for_ever(steps, state, event):
    for _ in range(len(STATES) + 1):
        actions, then = steps[state, event]
        state = after(state, actions)
        if then in ("GO", "PIECE", "REFUSE") or "KEEP" in actions:  # which rules another wait out
            return
    raise AssertionError(f"{event} leaves the caller in {state}")


@pytest.mark.parametrize("event", ["FREE", "STOP", "HUNG"])
@pytest.mark.parametrize("state", STATES)
def test_nothing_stays_lent_where_the_socket_is_let_go_or_the_peer_is_gone(steps, state, event):
    actions, then = steps[state, event]
    assert after(state, actions) == "CALM" and then in ("GO", "REFUSE")
