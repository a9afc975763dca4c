import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from lab.experiment.claims import Outcome
from lab.experiment.plots import colours, looks, scheme_of
from lab.run.report import Comparison, markdown, verdicts
from lab.run.report.figures import BINS, by_size, queues, slowdowns
from lab.run.report.html import write_html
from lab.run.report.tables import print_comparison
from lab.workload.passes import PassResult

SIZES = [100, 4000, 50_000, 900_000] * 250


@pytest.fixture
def compared(make_result):
    """Comparison of schemes whose small FCT is that of plain TCP times a factor, with some noise."""

    def compare(load=0.6, spurious=0, large=1.0, **factors):
        base = np.array(SIZES) / 10 + 500.0
        noise = np.random.default_rng(5)
        results = {}
        for name, factor in {"tcp": 1.0, **factors}.items():
            fct = base * noise.uniform(0.95, 1.05, len(base)) * np.where(np.array(SIZES) <= 5000, factor, 1.0)
            fct = np.where(np.array(SIZES) > 500_000, fct * (large if name == "qclimb" else 1), fct)
            tcp = {"OutSegs": 100_000, "TCPDSACKRecv": spurious if name == "qclimb" else 20}
            results[name] = [make_result(name, SIZES, list(fct), load=load, tcp=tcp)]
        return Comparison(load, results, {"thresholds": [5000, 10_000]}, ["a note"])

    return compare


def outcomes(comparison):
    return [verdict.outcome for verdict in verdicts(comparison)]


def test_every_claim_holds_when_qclimb_does_what_it_promises(compared):
    assert outcomes(compared(pias=0.5, qclimb=0.4, spurious=22)) == [Outcome.HOLDS] * 6


def test_a_qclimb_that_is_worse_than_pias_is_said_to_be(compared):
    assert outcomes(compared(pias=0.4, qclimb=0.5))[2:4] == [Outcome.FAILS] * 2


def test_equal_is_enough_at_low_load_and_not_enough_at_high(compared):
    low, high = (verdicts(compared(load=load, pias=0.5, qclimb=0.5))[2] for load in (0.4, 0.8))
    assert low.outcome is Outcome.HOLDS and high.outcome is Outcome.UNRESOLVED
    assert "not worse" in low.claim and "better" in high.claim


def test_large_flows_that_pay_too_much_are_said_to(compared):
    assert outcomes(compared(pias=0.5, qclimb=0.4, large=1.3))[4] is Outcome.FAILS


def test_spurious_retransmissions_beyond_noise_are_said(compared):
    assert outcomes(compared(pias=0.5, qclimb=0.4, spurious=200))[5] is Outcome.FAILS


def test_the_gain_is_told_by_part(compared):
    told = compared(**{"pias": 0.5, "qclimb": 0.4, "qclimb-no-forest": 0.45, "qclimb-no-footprint": 0.5}).gains[0]
    assert told.startswith("small flows") and "forest and footprint -20 %" in told
    assert "footprint alone -10 %" in told


def test_the_first_plot_has_slowdowns_by_size_and_a_p99_only_of_many_flows(compared):
    sample = compared(qclimb=0.4).samples["qclimb"]
    sizes, median = slowdowns(sample, 50)
    assert sizes == sorted(sizes) and len(sizes) == BINS
    assert (sizes[0], sizes[-1]) == (min(SIZES), max(SIZES))
    assert median[0] == pytest.approx(np.median(sample.slowdown[sample.bytes == min(SIZES)]), rel=0.1)
    assert slowdowns(sample, 99) == ([], [])  # 1,000 flows in 12 parts


def test_slowdowns_within_a_decade_can_be_read_off(compared):
    plot = by_size(compared(pias=0.5, qclimb=0.4))
    assert "<!-- 2 -->" in plot or "<!-- 5 -->" in plot


def test_a_scheme_has_one_colour_whatever_stands_beside_it():
    titles = ["PIAS", "QCLIMB", "plain TCP"]
    assert colours(titles) == {title: colours([title])[title] for title in titles}
    found = colours([*titles, "QCLIMB-FP", "QCLIMB-PS", *(f"other {n}" for n in range(4))])
    assert len(set(found.values())) == len(found)
    look = looks(["PIAS; ours", "QCLIMB-PS", "PIAS", "PIASX"])
    assert (look["PIAS"].colour, look["PIAS"].line) == (colours(["PIAS"])["PIAS"], "-")
    assert look["PIAS; ours"].line != "-" and scheme_of("PIAS; ours") == "PIAS" and scheme_of("PIASX") is None
    assert scheme_of("QCLIMB-PS; ours") == "QCLIMB-PS" and scheme_of("PDQ(ES)") == "PDQ"


def test_the_report_is_one_file_that_needs_no_other(compared, tmp_path):
    both = compared(pias=0.5, qclimb=0.4)
    waited = {"waited_ms": [0, 100], "waited_bytes": {"0": [7000, 0]}}
    comparison = replace(
        both, results={name: [replace(both.results[name][0], **waited)] for name in ("pias", "qclimb")}
    )
    write_html(tmp_path / "report.html", "a <title>", [comparison], verdicts(both), {"fabric": {"hosts": 8}})
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 6 and "a &lt;title&gt;" in page and "fabric.hosts" in page and "a note" in page
    assert "Where bytes wait" in page and "Ratios to PIAS over" in page
    for outside in ("<script", "<link", "src=", "@import"):
        assert outside not in page


def test_tables_name_every_scheme_and_class(compared):
    comparison = compared(pias=0.5, qclimb=0.4)
    console = Console(width=160, record=True, file=io.StringIO())
    print_comparison(console, comparison, verdicts(comparison))
    text = console.export_text()
    for word in ("small (to 5 KB)", "medium", "large", "plain TCP", "PIAS", "QCLIMB", "spurious", "holds: load 0.6"):
        assert word in text
    assert "…" not in text
    assert "| small (to 5 KB) | PIAS | 500 |" in markdown(comparison, verdicts(comparison))


def test_ratios_are_said_to_be_to_what_they_are_to(compared):
    both = compared(pias=0.5, qclimb=0.4)
    without = replace(both, results={name: passes for name, passes in both.results.items() if name != "tcp"})
    for comparison, base in ((both, "plain TCP"), (without, "PIAS")):
        console = Console(width=160, record=True, file=io.StringIO())
        print_comparison(console, comparison, [])
        assert f"ratios to {base} with" in console.export_text()
        assert f"ratios to {base} with" in markdown(comparison, [])


def test_numbers_are_valid_json_without_nan(compared, make_result):
    comparison = compared(pias=0.5)
    no_large = Comparison(0.6, {"tcp": [make_result("tcp", [100], [1e3])]})
    for each in (comparison, no_large):
        json.loads(json.dumps(each.to_json(), allow_nan=False))


def test_passes_over_different_traces_are_not_compared(make_result):
    one = make_result("tcp", [100], [1e3])
    with pytest.raises(ValueError, match="different traces"):
        Comparison(0.6, {"tcp": [one], "pias": [replace(one, trace_digest="other")]})


def test_what_waited_is_drawn_by_queue_from_the_first_served_on_and_only_where_it_was_read(compared):
    comparison = compared(pias=0.5)
    assert queues(comparison) == ""
    waited = {"0": [0, 9000], "6": [0, 0], "7": [500, 0]}
    results = {
        name: [replace(passes[0], waited_ms=[0, 100], waited_bytes=waited if name == "pias" else {"0": [7000, 0]})]
        for name, passes in comparison.results.items()
    }
    again = [PassResult.from_json(json.loads(json.dumps(passes[0].to_json()))) for passes in results.values()]
    assert again[1].waited_bytes == waited
    seen = Comparison(comparison.load, results)
    legend = queues(seen).partition('id="legend_1"')[2]
    assert [each for each in re.findall(r"<!-- (.*?) -->", legend) if each.isdecimal()] == ["7", "0"]
