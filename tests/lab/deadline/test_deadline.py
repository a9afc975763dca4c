"""The deadline experiment: what is drawn, what is possible at best, how shares are counted, and one real trial."""

import io
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from lab.cli.run import run
from lab.experiment.terminal import Teller
from lab.run.deadline.experiment import SCHEMES, file_of, policy_of, run_deadline, wanted
from lab.run.deadline.ideal import PAYLOAD_SHARE, Flow, draw, most_in_time
from lab.run.deadline.report import carried, over_trials, shares, table
from lab.run.settings import Deadline

RATE = 50_000_000


def test_draws_are_pdqs_in_times_of_the_slower_link() -> None:
    flows = [flow for trial in range(400) for flow in draw(20, 1, trial, RATE)]
    sizes, deadlines = np.array([flow.size_bytes for flow in flows]), np.array([flow.deadline_us for flow in flows])
    assert (sizes.min() >= 2_000) and (sizes.max() <= 198_000)
    assert abs(sizes.mean() - 100_000) < 2_000
    assert deadlines.min() == 60_000
    assert abs(np.median(deadlines) - 400_000 * np.log(2)) < 15_000
    assert draw(20, 1, 7, RATE) == draw(20, 1, 7, RATE) != draw(20, 2, 7, RATE)


def possible(flows: list[Flow]) -> int:
    """By trying every subset, in the order of deadlines."""
    best = 0
    for chosen in itertools.product([False, True], repeat=len(flows)):
        us, fits = 0.0, True
        for flow in sorted((f for f, take in zip(flows, chosen, strict=True) if take), key=lambda f: f.deadline_us):
            us += flow.size_bytes * 8e6 / (RATE * PAYLOAD_SHARE)
            fits &= us <= flow.deadline_us
        best = max(best, sum(chosen)) if fits else best
    return best


def test_no_choice_of_flows_brings_more_home_than_the_best_possible() -> None:
    for trial in range(40):
        flows = [replace(flow, deadline_us=flow.deadline_us // 4) for flow in draw(8, 3, trial, RATE)]
        assert most_in_time(flows, RATE) == possible(flows)


def trials(settings: Deadline, met: dict[str, int]) -> list[dict[str, object]]:
    return [
        {
            "trial": trial,
            "flows": count,
            "scheme": scheme,
            "idle": 1,
            "rows": [[2_000, 100, 100 if i < met[scheme] else 101, False] for i in range(count - 1)] + [[9, 100, 0, 0]],
        }
        for count, scheme, trial in ((one.point, one.scheme, one.repeat) for one in wanted(settings))
    ]


def test_a_flow_is_in_time_at_its_deadline_and_not_if_it_never_came() -> None:
    settings = Deadline(flows=(4, 8), trials=3)
    found = shares(settings, trials(settings, {"tcp": 0, "pias": 1, "qclimb": 2, "edf": 3}))
    assert [found[scheme, 4].value for scheme in SCHEMES] == [0, 0.25, 0.5, 0.75]
    assert carried(found, "edf", 0.75) == 4
    assert carried(found, "edf", 0.99) == 0
    assert len(table(found)) == 3


def test_a_trial_that_not_every_scheme_has_done_is_left_out() -> None:
    settings = Deadline(flows=(4,), trials=2)
    rows = trials(settings, dict.fromkeys(SCHEMES, 2))
    assert shares(settings, rows[:-1])["tcp", 4].trials == 1
    assert shares(settings, rows[:3]) == {}


def test_an_interval_holds_its_mean_and_narrows() -> None:
    random = np.random.default_rng(5)
    few, many = (over_trials(random.random(n).tolist()) for n in (10, 1000))
    assert few.low <= few.value <= few.high
    assert many.high - many.low < few.high - few.low


def test_only_one_scheme_honours_deadlines() -> None:
    policies = {scheme: policy_of(scheme, 1000) for scheme in SCHEMES}
    assert {name: policy.deadline_step_us for name, policy in policies.items() if policy} == {
        "pias": 0,
        "qclimb": 0,
        "edf": 1000,
    }


def test_bad_options_are_one_sentence() -> None:
    done = CliRunner().invoke(run, ["deadline", "--flows", "65"])
    assert done.exit_code == 2
    assert "'65': each must be below 65" in done.output


@pytest.mark.fabric
def test_trials_run_are_stored_and_not_run_again(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("a star of network namespaces needs root")
    settings = Deadline(flows=(3,), trials=1, prefix=f"qcd{os.getpid() % 100_000}", folder=tmp_path)
    rows = run_deadline(settings, Teller(Console(file=io.StringIO())))
    assert {row["scheme"] for row in rows} == set(SCHEMES)
    assert all(fct_us > 0 for row in rows for _, _, fct_us, _ in row["rows"])
    assert {row["scheme"]: row["rows"][0][3] for row in rows} == {
        "tcp": False,
        "pias": True,
        "qclimb": True,
        "edf": True,
    }
    before = file_of(settings).read_text()
    assert run_deadline(settings, Teller(Console(file=io.StringIO()))) == rows
    assert file_of(settings).read_text() == before
    assert [json.loads(line) for line in before.splitlines()] == rows
