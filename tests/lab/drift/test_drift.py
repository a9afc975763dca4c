"""Traffic that changes: the trace, what is counted of hosts' reports, and the whole of it against a live fabric."""

import io
import json
import os
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from lab.cli import lab
from lab.control.rest import RestError
from lab.run.drift.report import counted, exact, judged, load, phases, write
from lab.run.drift.run import Seen, run_drift
from lab.run.drift.traffic import changing
from lab.run.settings import Drift
from lab.workload.programs import WorkloadError

HOSTS = ["h1", "h2", "h3", "h4"]


def test_the_traffic_changes_at_its_moment_and_comes_at_one_rate():
    trace = changing(200, 1, 4, 6, HOSTS)
    before = [flow for flow in trace.flows if flow.time_us < 4_000_000]
    after = trace.flows[len(before) :]
    assert (len(before), len(after)) == (800, 1200)
    assert {flow.service for flow in before} == {"kv", "shuffle"}
    assert {flow.service for flow in after} == {"kv", "shuffle", "search"}
    small, large = (np.mean([f.bytes for f in part if f.service == "shuffle"]) for part in (before, after))
    assert large > 5 * small
    assert trace.seconds == 10 and len({flow.id for flow in trace.flows}) == 2_000
    assert trace == changing(200, 1, 4, 6, HOSTS) != changing(200, 2, 4, 6, HOSTS)


def seen_of(events, samples):
    rows = [dict(zip(("at_s", "flows", "bounded", "misses", "fallbacks"), row, strict=True)) for row in samples]
    settings = {"before_s": 20, "after_s": 30, "seed": 1, "on_drift": "rollout"}
    return Seen(settings, rows, events, flows=1000)


@pytest.fixture
def good():
    """100 flows a second, 20 of them with bounds; after the change half are new, until a new model knows them."""
    events = [
        (20.0, "change", ""),
        (24.0, "flagged", "so"),
        (30.0, "offered", "model 2"),
        (31.0, "in force", "model 2"),
    ]
    new = {at: 10 if 20 < at <= 32 else 0 for at in range(51)}
    samples = [(at, 100 * at, 20 * at, at > 21, sum(new[t] for t in range(at + 1))) for at in range(51)]
    return seen_of(events, samples)


def test_what_hosts_reported_is_counted_by_phase(good):
    assert [(name, begin, end) for name, begin, end in phases(good)] == [
        ("before the change", 0.0, 20.0),
        ("after it, the old model", 20.0, 31.0),
        ("after it, model 2", 33.0, 50),
    ]
    assert counted(good, 0, 20) == {"flows": 2000, "bounded": 400, "misses": 0, "fallbacks": 0}
    assert counted(good, 20, 31) == {"flows": 1100, "bounded": 220, "misses": 1, "fallbacks": 110}
    assert counted(good, 90, 99) == {"flows": 0, "bounded": 0, "misses": 0, "fallbacks": 0}


def test_an_interval_is_clopper_and_pearsons():
    assert exact(0, 0) == "-"
    assert exact(0, 1000) == "100.00 [99.63, 100.00]"
    assert exact(2, 670) == "99.70 [98.93, 99.96]"
    assert exact(3, 3).startswith("0.00 [0.00,")


def test_claims_are_judged_and_can_fail(good):
    assert all(holds for _, holds in judged(good))
    assert len(judged(replace(good, settings=good.settings | {"on_drift": "flag"}))) == 2
    good.events[1] = (12.0, "flagged", "too soon")
    assert [holds for _, holds in judged(good)] == [False, False, True, True, True, True]
    good.samples[-1]["misses"] += 30
    good.samples[-1]["fallbacks"] += 30
    assert [holds for _, holds in judged(good)][-2:] == [False, False]


def test_the_page_keeps_what_stands_around_the_measured_part(good, tmp_path):
    page = tmp_path / "drift.md"
    write(good, page)
    page.write_text(page.read_text().replace("# Drift, live", "# Ours\n\nWhat it shows."))
    write(good, page)
    text = page.read_text()
    assert text.startswith("# Ours\n\nWhat it shows.") and text.count("in force") >= 2
    assert (tmp_path / "drift.svg").read_text().startswith("<svg")


def test_what_can_not_be_is_refused_in_a_sentence(tmp_path):
    late = CliRunner().invoke(lab, ["run", "drift", "--observe", "50", "--before", "40"])
    assert late.exit_code == 2 and "--before 40 s" in late.output
    nothing = CliRunner().invoke(lab, ["run", "drift", "--stored", "--results", str(tmp_path / "none")])
    assert nothing.exit_code == 2 and "seen.json is missing" in nothing.output


@pytest.mark.fabric
@pytest.mark.system
@pytest.mark.timeout(1800)
def test_a_live_fabric_flags_trains_and_rolls_out_by_itself(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    for times in (1, 3, 8):  # the order of events is promised, and not how long this machine trains a forest
        settings = Drift(
            flows_per_s=500,
            observe_s=5 * times,
            before_s=25 * times,
            after_s=22 * times,
            trees=5,
            hosts_per_leaf=1,
            prefix=f"t{os.getpid()}dr",
            folder=tmp_path / f"drift-{times}",
        )
        try:
            seen = run_drift(settings, Console(file=io.StringIO()))
        except (WorkloadError, RestError) as slow:
            late = ("give it more time by --before", "nothing was recorded under 'before'")
            assert any(words in str(slow) for words in late) and times < 8
            continue
        told = json.dumps(seen.events, indent=1)
        assert not seen.failures
        change_s = seen.first("change")
        old_s, flagged_s = seen.first("in force", seen.first("trained")), seen.first("flagged", change_s)
        in_force_s = flagged_s and seen.first("in force", flagged_s)
        if old_s and old_s < change_s and in_force_s and in_force_s < settings.before_s + settings.after_s - 5:
            break
    assert flagged_s and in_force_s, told
    assert flagged_s == seen.first("flagged"), f"flagged before the traffic changed: {told}"
    offered_s = seen.first("offered")  # not seen where a look took longer than the rollout that followed
    assert offered_s is None or flagged_s <= offered_s <= in_force_s, told
    rollouts = Counter(about.rpartition(" ")[2] for _, what, about in seen.events if what == "rollout")
    assert rollouts["drift"] >= 1 and rollouts["bootstrap"] == 2, told
    old, new = (counted(seen, begin, end) for _, begin, end in phases(seen)[1:3])
    assert old["fallbacks"] > 0.2 * old["bounded"], old
    assert new["bounded"] and new["fallbacks"] / new["bounded"] < 0.25 * old["fallbacks"] / old["bounded"], (old, new)
    assert load(settings.folder / "seen.json").events == [tuple(event) for event in seen.events]
