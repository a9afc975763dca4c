"""When bounds in force are switched off: a model too old, or a whole window below its target by more than chance."""

import pytest
from click.testing import CliRunner

from orchestrator.cli import main
from orchestrator.defaults import DAY_S
from orchestrator.models import drift
from orchestrator.models.report import exact_interval
from orchestrator.watch.bounds_off import Due, Off, due, why_off

OLD = Off("too old", 0.0, generation=4)


def window(flows=2000, misses=0, fallbacks=0):
    return drift.Window(flows, flows, misses, fallbacks, 0.5)


def why(*windows, others=None, target=0.999, age_s=0.0):
    return why_off(windows, windows if others is None else others, target, age_s, 30 * DAY_S)


def test_a_model_is_too_old_beyond_its_limit_and_not_at_it():
    assert why(age_s=30 * DAY_S) is None
    assert why(window(), age_s=30 * DAY_S + 8640) == "the model was trained 30.1 days ago, expected at most 30"
    assert why(age_s=-DAY_S) is None, "a clock that went back is no reason"


def test_coverage_below_the_target_by_chance_leaves_bounds_on_and_by_more_switches_them_off():
    assert why(window(misses=2)) is None
    assert why(window(misses=9)) is None
    assert "10 of the newest 2000 flows lie outside their bounds" in why(window(misses=10))


@pytest.mark.parametrize("flows", [2000, 2500, 3999])
def test_the_limit_is_clopper_and_pearsons(flows):
    """The least number of misses that switches off is the least whose interval's upper end lies below the target."""
    least = next(misses for misses in range(flows) if why(window(flows, misses)))
    upper = [exact_interval(misses, flows, 1 - 2 * drift.DOUBT)[1] for misses in (least - 1, least)]
    assert upper[1] < 0.999 <= upper[0]


def test_the_target_is_the_models_own():
    assert why(window(misses=25), target=0.99) is None
    assert why(window(misses=50), target=0.99) is not None


def test_few_flows_switch_nothing_off_however_bad():
    assert why(window(flows=30, misses=30)) is None
    assert why(window(flows=1999, misses=1999)) is None
    assert drift.drifted([window(flows=30, misses=30)]) is not None, "they are flagged"


def test_bounds_stay_on_where_all_hosts_but_one_find_them_good():
    assert why(window(misses=500), others=[window(flows=1500)]) is None
    assert why(window(misses=500), others=[window(flows=1500, misses=300)]) is not None


def test_only_the_newest_window_counts_and_never_seen_flows_do_not():
    assert why() is None
    assert why(window(misses=500), window()) is None
    assert why(window(fallbacks=2000)) is None, "these have fallen back by themselves"


def test_what_is_due_follows_from_what_is_in_force():
    assert due(None, True, 4, None) is Due.NOTHING
    assert due(OLD, True, 4, None) is Due.SWITCH_OFF
    assert due(OLD, True, 4, 5) is Due.NOTHING, "a rollout is under way"
    assert due(OLD, False, 5, None) is Due.NOTHING, "they are off"
    assert due(OLD, True, 6, None) is Due.FORGET, "somebody rolled them out again"
    assert Off.from_json(vars(OLD)) == OLD
    assert Off.from_json(None) is None


@pytest.mark.parametrize("days", ["0", "-1", "never"])
def test_an_age_that_can_not_be_is_refused(days):
    found = CliRunner().invoke(main, ["serve", "--model-max-age-days", days])
    assert found.exit_code == 2
    assert "--model-max-age-days" in found.output
