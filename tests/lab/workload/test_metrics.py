from dataclasses import replace

import numpy as np
import pytest

from lab.experiment import flows
from lab.experiment.flows import Flows, estimate, packets, ratio, rows, service_rows
from lab.run.report import Comparison
from lab.workload.passes import PassResult
from lab.workload.services import SCALED


def flows_of(results: list[PassResult]) -> Flows:
    return flows.flows_of(results, SCALED)


def test_classes_means_and_percentiles_of_flows_made_by_hand(make_result):
    sample = flows_of([make_result("tcp", [100, 5000, 5001, 500_000, 500_001], [1e3, 3e3, 8e3, 12e3, 50e3])])
    assert estimate(sample, "small", "mean").value == 2
    assert estimate(sample, "medium", "mean").value == 10
    assert estimate(sample, "large", "mean").value == 50
    assert estimate(sample, "all", "mean").value == pytest.approx(14.8)
    assert estimate(sample, "small", "mean", "slowdown").value == pytest.approx((10 + 0.6) / 2)
    assert estimate(sample, "small", "p99").value == pytest.approx(1 + 0.99 * 2)


def test_queries_stand_on_their_own_line_and_in_no_size_class(make_result):
    result = make_result("tcp", [100, 200], [1e3, 9e3], service=["search", "files"])
    sample = flows_of([result])
    assert estimate(sample, "all", "mean").value == 1
    assert {row.service: row.fct_mean_ms for row in service_rows({"tcp": sample})} == {"files": 9, "search": 1}


def test_a_flow_without_an_fct_is_left_out_of_both_sides_of_a_ratio(make_result):
    tcp = flows_of([make_result("tcp", [100] * 3, [2e3, 2e3, 80e3])])
    ours = flows_of([make_result("pias", [100] * 3, [1e3, 1e3, float("nan")])])
    assert ratio(ours, tcp, "small", "mean").value == 0.5


def test_a_class_without_flows_gives_nan(make_result):
    sample = flows_of([make_result("tcp", [100], [1e3])])
    found = estimate(sample, "large", "p99")
    assert np.isnan([found.value, found.low, found.high]).all()


def test_an_interval_contains_its_estimate_and_shrinks_with_more_flows(make_result):
    random = np.random.default_rng(1)

    def width(count):
        result = make_result("tcp", [100] * count, list(random.exponential(1000, count)))
        found = estimate(flows_of([result]), "small", "mean")
        assert found.low < found.value < found.high
        return found.high - found.low

    assert width(10_000) < width(1_000) / 2


def test_intervals_know_that_flows_of_one_second_share_their_fate(make_result):
    # 100 flows a second; whole seconds are slow or fast together, so 1000 flows say no more than 10 seconds do.
    shared = np.repeat(np.random.default_rng(2).exponential(1000, 10), 100)
    single = np.random.default_rng(3).permutation(shared)
    widths = []
    for fct in (shared, single):
        found = estimate(flows_of([make_result("tcp", [100] * 1000, list(fct))]), "small", "mean")
        widths.append(found.high - found.low)
    assert widths[0] > 4 * widths[1]


def test_a_paired_ratio_is_sharper_than_its_parts(make_result):
    base = np.random.default_rng(4).exponential(1000, 2000)
    tcp = flows_of([make_result("tcp", [100] * 2000, list(base))])
    half = flows_of([make_result("pias", [100] * 2000, list(base / 2))])
    for name in ("mean", "p99"):
        found = ratio(half, tcp, "small", name)
        assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_ratio_over_different_flows_is_refused(make_result):
    with pytest.raises(ValueError, match="same flows"):
        ratio(flows_of([make_result("a", [1, 2], [1, 1])]), flows_of([make_result("b", [2, 1], [1, 1])]), "all", "mean")


def test_seeds_are_resampled_as_one_urn_of_blocks(make_result):
    one = make_result("tcp", [100] * 200, [1e3] * 200)
    both = flows_of([one, replace(one, seed=2)])
    assert both.block.max() + 1 == 2 * (flows_of([one]).block.max() + 1)


def test_the_base_has_ratio_one(make_result):
    samples = {name: flows_of([make_result(name, [100] * 50, [1e3] * 50)]) for name in ("tcp", "pias")}
    assert {row.mean_ratio.value for row in rows(samples, "tcp") if row.size_class == "small"} == {1.0}


def test_packets_add_up_over_seeds_and_the_worst_idle_share_counts(make_result):
    tcp = {"OutSegs": 100, "RetransSegs": 4, "TCPDSACKRecv": 2, "TCPDSACKOfoRecv": 1, "TCPTimeouts": 1}
    results = [make_result("tcp", [1], [1], tcp=tcp, queue_drops={"0": 3}, idle_share=idle) for idle in (0.5, 0.2)]
    found = packets("tcp", results)
    assert (found.segments, found.retransmitted, found.spurious, found.drops) == (200, 8, 6, 6)
    assert found.idle_share == 0.2 and found.spurious_share == 0.03


def test_a_pass_reads_back_as_it_was_saved(make_result, tmp_path):
    result = make_result("tcp", [100, 200], [1e3, float("nan")])
    result.save(tmp_path / "pass.json")
    again = PassResult.load_file(tmp_path / "pass.json")
    assert np.isnan(again.fct_us[1])
    assert replace(again, fct_us=[]) == replace(result, fct_us=[])


def test_schemes_share_what_a_flow_takes_alone(make_result):
    one, other = (make_result(name, [100], [1e3], alone_us=[us]) for name, us in (("tcp", 100.0), ("pias", 90.0)))
    assert flows.flows_of([other], SCALED, [one]).slowdown == pytest.approx([10])
    shared = Comparison(0.6, {"pias": [other], "tcp": [one]}).samples
    assert [sample.slowdown[0] for sample in shared.values()] == pytest.approx([10, 10])
