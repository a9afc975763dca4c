"""The Big-Spine experiment without a fabric: its traffic, what spines should carry, and its page."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from lab.run.bigspine.report import report
from lab.run.bigspine.run import passes
from lab.run.bigspine.traffic import CORE_BPS, HOST_BPS, KB, SCHEMES, alone_us, receivers, topology_of, trace_of
from lab.run.settings import BigSpine
from lab.workload.passes import PassResult
from lab.workload.services import SCALE
from lab.workload.trace import HEADER_BYTES, MSS_BYTES, wire_bytes


def test_the_shares_are_the_papers_and_level_the_spines() -> None:
    mp = SCHEMES["mp-2"]
    assert mp.shares(4, 0.8) == pytest.approx([0.3827, 0.2912, 0.1926, 0.1335], abs=2e-4)
    for scheme in SCHEMES.values():
        told = scheme.carried(4, 0.8)
        assert [first + last for first, last in told] == pytest.approx([0.25] * 4, abs=1e-3)
    first = [one for one, _ in mp.carried(4, 0.8)]
    assert first == sorted(first)


def test_a_revision_has_shares_that_sum_to_one_and_ascending_thresholds() -> None:
    for scheme in SCHEMES.values():
        body = scheme.revision(["s1", "s2", "s3", "s4"], 0.8)
        assert body["thresholds"] == sorted(set(body["thresholds"]))
        if scheme.is_pinned:
            assert sum(body["weights"].values()) == pytest.approx(1, abs=1e-9)
            assert body["thresholds"][0] == round(34.96 * 1000 / SCALE)
        else:
            assert "spines" not in body


def test_bounds_are_a_forests_and_what_was_handed_over_and_change_nothing_else() -> None:
    names = ["s1", "s2", "s3", "s4"]
    for without, with_bounds in (("mlfq-2", "qclimb-2"), ("mp-2", "mp-qclimb-2"), ("mlfq-5", "qclimb-5")):
        body = SCHEMES[with_bounds].revision(names, 0.8, 7)
        added = {"mode": "qclimb", "use_forest": True, "use_footprint": True, "model": 7, "without_lengths": True}
        assert body == SCHEMES[without].revision(names, 0.8) | added


def test_the_trace_offers_the_load_from_one_rack_to_the_other() -> None:
    topology = topology_of(4)
    trace = trace_of(0.8, 1, 25.0, topology)
    assert trace == trace_of(0.8, 1, 25.0, topology)
    sent = wire_bytes(np.array([flow.bytes for flow in trace.flows])).sum() * 8
    assert sent / trace.seconds == pytest.approx(0.8 * CORE_BPS, rel=1e-6)
    assert {topology.leaf_of(flow.client) for flow in trace.flows} == {"l1"}
    assert {topology.leaf_of(flow.server) for flow in trace.flows} == {"l2"}
    served = receivers(topology)
    assert {flow.service for flow in trace.flows} == {one.name for one in served}
    assert served[0].served_by(list(topology.hosts)) == topology.hosts_of("l2")


def by_packets(size: int, rates: list[float]) -> float:
    """The last packet's arrival, packet by packet."""
    done = [0.0] * len(rates)
    while size > 0:
        bits, at = 8 * (min(size, MSS_BYTES) + HEADER_BYTES), 0.0
        for link, rate in enumerate(rates):
            at = done[link] = max(at, done[link]) + bits / rate
        size -= MSS_BYTES
    return at * 1e6


@pytest.mark.parametrize("spines", [2, 4])
def test_a_flow_alone_takes_as_long_as_its_packets(spines: int) -> None:
    sizes = [32, 1000, MSS_BYTES, MSS_BYTES + 1, 2 * MSS_BYTES, 50_000, 1_460_000]
    rates = [HOST_BPS, CORE_BPS / spines, CORE_BPS / spines, HOST_BPS]
    found = alone_us(np.array(sizes), spines)
    assert list(found) == pytest.approx([by_packets(size, rates) for size in sizes], rel=1e-9)


def test_five_queues_are_measured_on_the_most_spines_alone() -> None:
    wanted = passes(BigSpine(seeds=(1, 2)))
    assert len(wanted) == 2 * (7 + 5)
    assert {one.point[1] for one in wanted if one.scheme.endswith("-5")} == {4}
    assert len({one.name for one in wanted}) == len(wanted)


def result(scheme: str, seed: int, factor: float, idle_share: float = 0.3) -> PassResult:
    trace = trace_of(0.8, seed, 5.0, topology_of(4))
    size = [flow.bytes for flow in trace.flows]
    fct = list(alone_us(np.array(size), 4) * factor)
    count = len(size)
    return PassResult(
        scheme, 0.8, seed, trace.digest, trace.seconds, list(range(count)), ["bulk0"] * count, ["h1"] * count,
        ["h5"] * count, size, [flow.time_us for flow in trace.flows], [0] * count, fct, fct,
        tcp=dict.fromkeys(("OutSegs", "RetransSegs", "TCPDSACKRecv", "TCPDSACKOfoRecv", "TCPTimeouts"), 100),
        idle_share=idle_share,
        settings={"uplink_bytes": {f"s{n}": [75, 25, 0, 0, 0, 0, 0, 0] for n in range(1, 5)}},
    )  # fmt: skip


def test_the_page_tells_ratios_over_the_same_flows_and_keeps_what_a_person_wrote(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Mine\n\n<!-- measured -->\nof yesterday\n<!-- end of what was measured -->\nbelow\n")
    found = {
        ((0.8, 4), name, seed): result(name, seed, f) for name, f in (("mlfq-2", 3.0), ("mp-2", 2.0)) for seed in (1, 2)
    }
    settings = BigSpine(document=page)
    report(settings, found, Console(quiet=True))
    text = page.read_text()
    assert text.startswith("# Mine\n")
    assert text.endswith("below\n")
    assert "yesterday" not in text
    assert "MLFQ, N = 2, ECMP / MP-MLFQ, N = 2, same flows: all 1.50 [1.50, 1.50]" in text
    assert "| MLFQ, N = 2, ECMP | 3.00 [3.00, 3.00] |" in text
    assert "| MP-MLFQ, N = 2 | s1 | 0.062 (" in text
    assert "fluid model 1.18, packet simulator 1.07, the paper about 1.15" in text
    assert round(KB) == 50


def test_the_page_tells_what_spines_give_with_bounds_and_foretells_no_bytes_of_them(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    factors = {"mp-2": 2.0, "qclimb-2": 2.4, "mp-qclimb-2": 1.6}
    report(BigSpine(document=page), {((0.6, 4), name, 1): result(name, 1, f) for name, f in factors.items()},
           Console(quiet=True))  # fmt: skip
    text = page.read_text()
    assert "QCLIMB, N = 2, ECMP / QCLIMB over MP-MLFQ, N = 2, same flows: all 1.50 [1.50, 1.50]" in text
    assert "MP-MLFQ, N = 2 / QCLIMB over MP-MLFQ, N = 2, same flows: all 1.25 [1.25, 1.25]" in text
    assert "| QCLIMB over MP-MLFQ, N = 2 | s1 | 0.062 | 0.188 | 0.250 |" in text
    assert "Elsewhere" not in text  # known for load 0.8 alone


def test_passes_of_a_busy_machine_tell_bytes_and_no_times(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    found = {((0.8, 4), name, 1): result(name, 1, 2.0, 0.01) for name in ("mlfq-2", "mp-2")}
    report(BigSpine(document=page), found, Console(quiet=True))
    text = page.read_text()
    assert "No times are told" in text
    assert "idle for only 1.0%" in text
    assert "| MP-MLFQ, N = 2 | s1 | 0.062 (" in text
    assert "all, p99" not in text


def test_a_pass_beside_other_work_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    found = {((0.8, 4), name, 1): result(name, 1, 2.0, idle) for name, idle in (("mlfq-2", 0.9), ("mp-2", 0.3))}
    report(BigSpine(document=page), found, Console(quiet=True))
    text = page.read_text()
    assert "- mp-2, load 0.8, seed 1: idle for 30.0% of the pass, 5 points less than another scheme's" in text
    assert "all 1.00 [1.00, 1.00]" in text
