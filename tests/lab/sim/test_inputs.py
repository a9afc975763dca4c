"""Experiments that can't be, and workloads that are what they say."""

import numpy as np
import pytest

from lab.sim import (
    NAMED,
    AllToAll,
    Bursty,
    Experiment,
    ExperimentError,
    FlowList,
    Homa,
    Incast,
    Known,
    Leaves,
    Nothing,
    Pdq,
    Permutation,
    Pfabric,
    Staggered,
    Stride,
    Tcp,
    Topology,
    Watch,
    Workload,
    star,
)
from lab.sim.flowlist import read_flow_list
from lab.sim.runner import flows_of
from lab.sim.schemes import changed, scheme_named, with_shares
from lab.sim.sizes import size_table, table_names

ONE, TWO = np.array([0]), np.array([0, 1])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Experiment(scheme="pdq"), "scheme is 'pdq', expected a scheme's settings, as scheme_named gives"),
        (lambda: Experiment(topology="star"), "topology is 'star', expected a Topology, FatTree"),
        (lambda: Experiment(workload="web"), "workload is 'web', expected a Workload or a FlowList"),
        (lambda: Experiment(flows=1.5), "flows is 1.5, expected a whole number"),
        (lambda: Experiment(seed=True), "seed is True, expected a whole number"),
        (lambda: Experiment(load="x"), "load is 'x', expected a number"),
        (lambda: Topology(leaves=1.5), "topology.leaves is 1.5, expected a whole number"),
        (lambda: Pdq(subflows="2"), "scheme.subflows is '2', expected a whole number"),
        (lambda: Pdq(terminates=1), "scheme.terminates is 1, expected true or false"),
        (lambda: Tcp(7), "scheme.name is 7, expected a word"),
        (lambda: Watch(0.5), "watch.port is 0.5, expected a whole number"),
        (lambda: Experiment(losses=((3, 0.1), (3, 0.2))), r"losses has ports \[3, 3\], expected each once"),
        (lambda: Experiment(load=0), "load is 0, expected above 0"),
        (lambda: Experiment(load=float("nan")), "load is nan"),
        (lambda: Experiment(flows=0), "flows is 0"),
        (lambda: Experiment(seed=-1), "seed is -1"),
        (lambda: Experiment(routing="best"), "routing is 'best', expected ecmp, spray or priority"),
        (lambda: Experiment(spine_shares=(1, 2)), "spine_shares has 2 values, expected 4"),
        (lambda: Experiment(spine_shares=(0, 0, 0, 0)), "spine_shares are"),
        (lambda: Experiment(workload=Workload("websearch")), "workload.sizes is 'websearch', expected one of"),
        (lambda: Tcp(thresholds_bytes=(3, 2)), r"scheme.thresholds_bytes are \(3, 2\), expected 1 to 63 ascending"),
        (lambda: Tcp(thresholds_bytes=()), r"scheme.thresholds_bytes are \(\), expected 1 to 63"),
        (lambda: Homa(unscheduled_bytes=(9, 5, 7)), r"scheme.unscheduled_bytes are \(9, 5, 7\), expected 3 ascending"),
        (lambda: changed(NAMED["pias"], ["thresholds_bytes=5,x"]), "scheme.thresholds_bytes is '5,x'"),
        (lambda: Tcp(tagging="best"), "scheme.tagging is 'best', expected one of none, pias"),
        (lambda: Tcp(buffer_bytes=10, reserved_bytes=11), "scheme.reserved_bytes is 11: 1 queues of it do not fit"),
        (lambda: Tcp(dynamic_alpha=(1, 300.0)), "scheme.dynamic_alpha is 300.0, expected 0 to 256"),
        (
            lambda: Experiment(scheme=Tcp(tagging="pias", dynamic_alpha=(1.0, 8.0))),
            "scheme.dynamic_alpha has 2 shares, expected 1 or 8, one a queue",
        ),
        (lambda: with_shares(Pfabric(), [3]), "buffer_shares: pfabric has no queues that share a buffer"),
        (lambda: Experiment(routing="priority"), "routing is 'priority', but scheme pfabric has no priorities"),
        (
            lambda: Experiment(star(4), NAMED["pias"], routing="priority"),
            "routing is 'priority', but topology.spines is 0",
        ),
        (lambda: Topology(leaves=0), "topology.leaves is 0, expected 1 or more"),
        (lambda: Topology(spines=0), "topology.spines is 0: 9 leaves are disconnected"),
        (lambda: Topology(host_rate_bps=7), "topology.host_rate_bps is 7: a byte must take whole picoseconds"),
        (lambda: Topology(1, 0, 1), "a flow needs two hosts"),
        (lambda: Pfabric(max_window=3), "scheme.max_window is 3, expected 12"),
        (lambda: Leaves(width=2), "workload.forecast.width is 2"),
        (lambda: Known(share=1.5), "workload.forecast.share is 1.5"),
        (lambda: Leaves(number="median"), "workload.forecast.number is 'median'"),
        (
            lambda: FlowList(ONE, ONE + 1.5, ONE, ONE),
            "workload.size_bytes is 1-D of float64, expected a 1-D array of whole",
        ),
        (lambda: FlowList([0], ONE, ONE, ONE), "workload.start_ps is a list, expected"),
        (lambda: FlowList(ONE, ONE + 1, ONE, ONE + 1, task=np.array([[1]])), "workload.task is 2-D of int64"),
        (
            lambda: FlowList(TWO[::-1], TWO, TWO, TWO),
            r"workload.start_ps\[1\] is 0, expected 0 to 4611686018427387904, and no less",
        ),
        (lambda: FlowList(TWO[::-1].astype(np.uint64), TWO, TWO, TWO), r"workload.start_ps\[1\] is 0, expected"),
        (
            lambda: FlowList(ONE - 1, ONE + 1, ONE, ONE + 1),
            r"workload.start_ps\[0\] is -1, expected 0 to 4611686018427387904",
        ),
        (
            lambda: FlowList(ONE + 9, ONE + 1, ONE, ONE + 1, deadline_ps=ONE + 9),
            r"workload.deadline_ps\[0\] is 9, expected 0 or more than start_ps\[0\], 9",
        ),
        (lambda: FlowList(ONE, np.array([0]), ONE, ONE), r"workload.size_bytes\[0\] is 0"),
        (
            lambda: FlowList(ONE, ONE + 1, ONE, ONE + 1, ONE + 9, ONE + 3),
            r"workload.lower_bytes\[0\] is 9, expected at most upper_bytes\[0\], 3",
        ),
        (lambda: FlowList(np.array([2, 1]), ONE, ONE, ONE), "workload.size_bytes has 1 values for 2 flows"),
        (lambda: scheme_named("pfabrik"), "scheme is 'pfabrik', expected one of pfabric"),
        (lambda: changed(Pfabric(), ["max_windw=3"]), "did you mean max_window"),
        (lambda: changed(Pfabric(), ["=3"]), r"scheme\.: pfabric has no such setting\. Known: name, initial_window"),
        (lambda: changed(Pfabric(), ["max_window=x"]), "scheme.max_window is 'x'"),
        (lambda: list(flows_of(Experiment(workload=FlowList(ONE, ONE + 1, ONE, ONE)))), r"workload.source\[0\]"),
        (
            lambda: Experiment(Topology(1, 0, 4), workload=Workload(load_of="core")),
            "workload.load_of is 'core', but no flow",
        ),
    ],
)
def test_an_experiment_that_cannot_be_is_one_sentence_that_names_the_field(make, sentence):
    with pytest.raises(ExperimentError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_more_than_links_carry_is_allowed_but_said():
    assert Experiment(load=0.95).overload() is None
    assert (
        "load is 1.2: of what they carry, it offers the busiest host's link 1.20 and" in Experiment(load=1.2).overload()
    )
    # QCLIMB's fabric with pFabric's four spines: 640 Gb/s of hosts over 400 Gb/s of uplinks.
    core = Experiment(Topology(9, 4, 16, 40 * 10**9, 100 * 10**9), load=0.8).overload()
    assert "1.15;" in core
    assert Experiment(Topology(1, 0, 4), load=0.9).overload() is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0 100 0 1\n1 nan 0 1", r"line 2: column 2 \(size_bytes\) is nan, expected a whole number, 1 to"),
        ("0 100 0 1 -5 7", r"line 1: column 5 \(lower_bytes\) is -5, expected a whole number, 0 to"),
        ("# flows\n\n0 100 0", "line 3: there are 3 columns, expected 4, 6, 7 or 9"),
        ("0 100 0 1\n0 1", "line 2: there are 2 columns, expected 4 as in the first line"),
        ("0 100 0 1\n0 1,000 0 1", r"line 2: column 2 \(size_bytes\) is '1,000', expected a number"),
        ("0 100 0 1\n5 100 0 1\n4 100 0 1", "line 3: this flow starts before the one ahead of it"),
        ("0 100 7 7", "line 1: source and target are both 7, expected two hosts"),
        ("0 1.5 0 0", r"column 2 \(size_bytes\) is 1.5, expected a whole number, 1"),
        ("1 1.0 0 0 0 0 0 6 139", r"line 1: column 5 \(size_packets\) is 0, expected a whole number, 1"),
        ("1 inf 0 0 1 0 0 6 139", r"line 1: column 2 \(start_s\) is inf, expected 0 to"),
        ("0 100 0 1 3 9\n1 100 0 1 9 3", "line 2: lower_bytes is 9, expected at most upper_bytes, 3"),
        ("", "has no flows"),
    ],
)
def test_a_flow_list_that_cannot_be_read_says_where(tmp_path, text, sentence):
    path = tmp_path / "flows.txt"
    path.write_text(text)
    with pytest.raises(ExperimentError, match=sentence) as caught:
        read_flow_list(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arrivals", [None, Bursty(1.5)])
@pytest.mark.parametrize("matrix", [AllToAll(), Permutation(), Stride(5), Staggered(0.5), Incast(3)])
def test_a_workload_offers_the_load_that_it_is_named_for(matrix, arrivals):
    topology = Topology(3, 2, 4)
    workload = Workload("fbwebserver_cw_bytes", matrix, **({"arrivals": arrivals} if arrivals else {}))
    experiment = Experiment(topology, workload=workload, load=0.4, flows=200_000)
    flows = np.concatenate(list(flows_of(experiment)))
    wire = flows["size_bytes"] + 40 * -(-flows["size_bytes"].astype(np.int64) // 1460)
    seconds = flows["start_ps"][-1] / 1e12
    into = np.bincount(flows["target"], wire, minlength=topology.hosts)
    busiest = into.max() if isinstance(matrix, Incast) else into.mean()
    assert busiest * 8 / seconds / topology.host_rate_bps == pytest.approx(0.4, rel=0.05)
    assert (flows["source"] != flows["target"]).all()


def test_load_of_the_core_counts_flows_between_racks():
    topology = Topology(3, 2, 4)
    experiment = Experiment(topology, workload=Workload(load_of="core"), load=0.5, flows=200_000)
    flows = np.concatenate(list(flows_of(experiment)))
    crosses = topology.crosses_core(flows["source"], flows["target"])
    wire = (flows["size_bytes"] + 40 * -(-flows["size_bytes"].astype(np.int64) // 1460))[crosses]
    capacity = topology.leaves * topology.spines * topology.uplink_rate_bps
    assert wire.sum() * 8 / (flows["start_ps"][-1] / 1e12) / capacity == pytest.approx(0.5, rel=0.05)


def test_permutations_give_each_host_one_sender():
    flows = np.concatenate(list(flows_of(Experiment(workload=Workload(matrix=Permutation(7)), flows=20_000))))
    assert len({*zip(flows["source"].tolist(), flows["target"].tolist(), strict=True)}) == 144


def test_leaves_cover_all_but_the_misses():
    workload = Workload("flux_pagerank_est_bytes", forecast=Leaves(0.1, 0.01))
    flows = np.concatenate(list(flows_of(Experiment(workload=workload, flows=100_000))))
    inside = (flows["lower_bytes"] <= flows["size_bytes"]) & (flows["size_bytes"] <= flows["upper_bytes"])
    assert 0.985 < inside.mean() < 0.995
    assert (flows["lower_bytes"] <= flows["upper_bytes"]).all()


def test_so_many_flows_are_known_exactly_whatever_their_size():
    workload = Workload("flux_pagerank_est_bytes", forecast=Known(0.8, Nothing()))
    flows = np.concatenate(list(flows_of(Experiment(workload=workload, flows=100_000))))
    known = flows["lower_bytes"] == flows["size_bytes"]
    assert (flows["upper_bytes"][known] == flows["size_bytes"][known]).all()
    assert (flows["lower_bytes"][~known] == 0).all()
    assert 0.79 < known.mean() < 0.81
    small = flows["size_bytes"] < np.median(flows["size_bytes"])
    assert abs(known[small].mean() - known[~small].mean()) < 0.01


def test_a_forecasts_number_is_the_mean_of_its_window():
    table = "flux_pagerank_est_bytes"
    whole = Workload(table, forecast=Leaves(1.0, 0.0))
    flows = np.concatenate(list(flows_of(Experiment(workload=whole, flows=1_000))))
    assert flows["forecast_bytes"] == pytest.approx(size_table(table).mean_bytes(), rel=1e-3)
    mean, middle = (
        np.concatenate(
            list(flows_of(Experiment(workload=Workload(table, forecast=Leaves(0.1, 0.0, number)), flows=50_000)))
        )
        for number in ("mean", "middle")
    )
    assert (mean["lower_bytes"] <= mean["forecast_bytes"]).all()
    assert (mean["forecast_bytes"] <= mean["upper_bytes"]).all()
    assert mean["forecast_bytes"].mean() > 1.2 * middle["forecast_bytes"].mean()


def test_every_table_has_a_mean():
    for name in table_names():
        assert 100 < size_table(name).mean_bytes() < 20e6, name
