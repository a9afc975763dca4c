"""The control loop: its traffic, what is concluded from histograms, and its page; live on a fabric with `-m system`."""

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner
from qclimb.histogram import SizeHistogram
from qclimb.policy import Mode
from qclimb.schema import validate_gnmi

from lab.cli import lab
from lab.run.control.report import followed, judged, load, phases, table, write
from lab.run.control.run import PIAS, Operator, Seen, difference, mistakes
from lab.run.control.traffic import changing
from lab.run.settings import Control
from lab.workload.programs import WorkloadError
from orchestrator.plan.revision import compose
from orchestrator.rest.bodies import RevisionBody, RolloutBody

HOSTS = ["h1", "h2", "h3", "h4"]


def histogram(flows) -> SizeHistogram:
    return SizeHistogram.of(flow.bytes for flow in flows)


def test_sizes_change_at_their_moment_and_the_load_stays():
    trace = changing(0.6, 1, 20, 30, HOSTS, 25e6)
    before = [flow for flow in trace.flows if flow.time_us < 20_000_000]
    after = trace.flows[len(before) :]
    assert np.median([flow.bytes for flow in before]) > 20 * np.median([flow.bytes for flow in after])
    per_s = [sum(flow.bytes for flow in part) / seconds for part, seconds in ((before, 20), (after, 30))]
    assert 0.7 < per_s[0] / per_s[1] < 1.4
    short = changing(0.6, 1, 2, 3, HOSTS, 25e6)
    assert short == changing(0.6, 1, 2, 3, HOSTS, 25e6) != changing(0.6, 2, 2, 3, HOSTS, 25e6)


def test_histograms_differ_where_traffic_does_and_hardly_elsewhere():
    one, other = (changing(0.6, seed, 40, 40, HOSTS, 25e6).flows for seed in (1, 2))
    web = [histogram(flow for flow in flows if flow.time_us < 40_000_000) for flows in (one, other)]
    mining = histogram(flow for flow in one if flow.time_us >= 40_000_000)
    assert difference(*web) < Control.differs / 2
    assert difference(web[0], mining) > 2 * Control.differs
    assert difference(mining, mining) == 0
    assert difference(SizeHistogram.of([1]), SizeHistogram.of([10])) == 1


def test_an_operator_whose_program_failed_after_the_last_look_is_seen_once_it_ends():
    class Gone:
        def statistics(self, label):
            raise OSError("connection refused")

    operator = Operator(Gone(), None, None, Seen({}), print)
    operator.check()
    operator.begins(0)
    operator.ends()
    with pytest.raises(WorkloadError, match="connection refused"):
        operator.check()


def seen_of(slow_when_bad: float) -> Seen:
    """400 small flows a second; slower with the thresholds of before, far slower under both bad revisions."""
    flood, starved = (each.name for each in mistakes(35))
    events = [
        (20.0, "change", ""),
        (24.0, "seen", "sizes differ by 0.6"),
        (26.0, "in force", "revision 3, the first threshold at 1448 bytes"),
        (40.0, "bad", f"revision 4, {flood}: why"),
        (55.0, "undone", "small flows of 2 of 4 hosts are slower"),
        (70.0, "bad", f"revision 5, {starved}: why"),
        (80.0, "undone", "after wave 1: small flows of 2 of 4 hosts are slower"),
    ]
    at = np.arange(0, 90, 0.05)
    when = [at < 20, at < 26, at < 40, at < 55, at < 70, at < 80]
    slow = np.select(when, [1.3, 1.6, 1.4, slow_when_bad, 1.4, slow_when_bad], 1.4)
    flows = [(float(due), 1000, float(each)) for due, each in zip(at, slow, strict=True)]
    flows += [(float(due), 20_000, 4.0 if due < 26 else 2.0) for due in at]
    settings = {"before_s": 20, "after_s": 70, "seed": 1, "load": 0.6, "differs": 0.15, "soak_s": 35}
    felt = [(-5.0, 9.0), (0.0, 1.2), (45.0, 8.0)]
    return Seen(settings, events, [(10.0, 0.02), (24.0, 0.6)], {"before": [10_000], "in force": [30_000]}, felt, flows)


def test_each_claim_can_fail():
    assert len(judged(seen_of(9.0))) == 9 and all(good for _, good in judged(seen_of(9.0)))
    harmless = dict(judged(seen_of(1.0)))
    assert [claim for claim, good in harmless.items() if not good] == [
        f"{each.name}: {what}"
        for each in mistakes(35)
        for what in ("slows small flows down", "small flows are then faster again")
    ]
    silent = seen_of(9.0)
    silent.events = [event for event in silent.events if event[1] not in ("undone", "in force")]
    found = dict(judged(silent))
    assert not any(good for claim, good in found.items() if claim.endswith("undoes it by itself"))
    assert not found["new thresholds are in force on all hosts"]
    as_slow = seen_of(9.0)
    as_slow.flows = [(due, size, 2.0 if size > 5000 else slow) for due, size, slow in as_slow.flows]
    assert [claim for claim, good in judged(as_slow) if not good] == [
        "flows of 10,000 to 30,000 bytes, which the new ones part from larger flows, are slowed down less by them"
    ]
    early = seen_of(9.0)
    early.events.insert(0, (5.0, "seen", ""))
    assert not judged(early)[0][1]


def test_mistakes_are_within_the_contract():
    for each in mistakes(35):
        body = RevisionBody(**{**PIAS.revision([1448 * 4**n for n in range(7)], 0.6), **each.body})
        made = compose(Mode.PIAS, tuple(body.thresholds), 8, max_share=body.max_share, slack_bytes=0)
        validate_gnmi(made.intent.to_gnmi())
        RolloutBody(revision=1, **each.pace)


def test_the_page_tells_each_phase_and_keeps_what_a_person_wrote(tmp_path):
    seen = seen_of(9.0)
    assert [name for name, _, _ in phases(seen)][-1] == "undone (2)" and len(phases(seen)) == 7
    assert "| bad: thresholds of 1 GiB | 40 to 55 | 300 | 9" in table(seen)
    assert followed(seen).endswith("with the new ones: better.")
    page = tmp_path / "control.md"
    write(seen, page)
    page.write_text(f"Mine.\n{page.read_text()}Also mine.\n")
    write(seen, page)
    text = page.read_text()
    assert text.startswith("Mine.") and text.endswith("Also mine.\n") and text.count("| undone (1) | 55 to 70 |") == 1
    drawn = (tmp_path / "control.svg").read_text()
    assert "bad revision 4" in drawn and "revision 3 in force" in drawn


def test_what_can_not_be_is_refused(tmp_path):
    runner = CliRunner()
    for words, said in (
        (["--bad", "10", "--stored"], "expected after the change"),
        (["--stored", "--results", str(tmp_path)], "is missing, expected what an earlier run left"),
    ):
        found = runner.invoke(lab, ["run", "control", *words])
        assert found.exit_code == 2 and said in found.output


@pytest.mark.system
@pytest.mark.skipif(os.geteuid() != 0, reason="a fabric needs root")
@pytest.mark.skipif(
    "QCLIMB_CONTROL" not in os.environ, reason="takes seven minutes of a machine to itself: set QCLIMB_CONTROL=1"
)
def test_thresholds_follow_the_traffic_and_bad_revisions_are_undone(tmp_path):
    prefix = f"qct{os.getpid() % 1000}"
    found = CliRunner().invoke(lab, ["run", "control", "--prefix", prefix, "--results", str(tmp_path), "--json"])
    assert found.stdout, found.output
    told = json.loads(found.stdout)
    holds = {each["claim"]: each["holds"] for each in told["judged"]}
    assert holds["hosts' histograms show the change, and nothing before it"]
    assert holds["new thresholds are in force on all hosts"]
    assert all(good for claim, good in holds.items() if claim.endswith("undoes it by itself")), told["events"]
    assert load(tmp_path / "seen.json").events
