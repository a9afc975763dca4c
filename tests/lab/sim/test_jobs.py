"""Jobs: many flows at one moment, of about one size, and the load that was asked for."""

import numpy as np
import pytest

from lab.sim import Experiment, ExperimentError, Jobs, Leaves, Topology, ToRack, Workload
from lab.sim.runner import flows_of

FABRIC = Topology(3, 2, 8)
SIZES = "flux_pagerank_est_bytes"


def test_jobs_offer_the_load_that_is_asked_for():
    flows = Jobs(SIZES, 16).flows(FABRIC, 0.6, 160_000, 1)
    wire = flows.size_bytes + 40 * -(-flows.size_bytes // 1460)
    seconds = flows.start_ps[-1] / 1e12
    assert wire.sum() * 8 / seconds / (FABRIC.hosts * FABRIC.host_rate_bps) == pytest.approx(0.6, rel=0.05)


def test_few_jobs_of_heavy_tailed_sizes_offer_the_load_too():
    for seed in range(1, 5):
        flows = Jobs("flux_kmeans_est_bytes", 25).flows(FABRIC, 0.7, 2_500, seed)
        wire = flows.size_bytes + 40 * -(-flows.size_bytes // 1460)
        offered = wire.sum() * 8 / (flows.start_ps[-1] / 1e12) / (FABRIC.hosts * FABRIC.host_rate_bps)
        assert offered == pytest.approx(0.7, rel=0.35)  # a hundred gaps scatter by a tenth


def test_a_jobs_flows_begin_together_and_have_about_one_size():
    flows = Jobs(SIZES, 25, "shuffle", spread=0.1).flows(Topology(), 0.6, 2_500, 1)
    start, size = (values.reshape(100, 25) for values in (flows.start_ps, flows.size_bytes))
    assert (start == start[:, :1]).all() and (np.diff(start[:, 0]) > 0).all()
    assert 0.05 < np.median(np.log(size).std(axis=1)) < 0.15
    assert np.log(size.mean(axis=1)).std() > 1


@pytest.mark.parametrize(("ends", "senders", "receivers"), [("fan-in", None, 1), ("shuffle", 4, 4)])
def test_a_jobs_hosts_are_as_its_ends_say(ends, senders, receivers):
    flows = Jobs(SIZES, 16, ends).flows(FABRIC, 0.6, 1_600, 3)
    for source, target in zip(flows.source.reshape(-1, 16), flows.target.reshape(-1, 16), strict=True):
        assert len(set(target)) == receivers and not set(source) & set(target)
        if senders:
            assert len({*zip(source.tolist(), target.tolist(), strict=True)}) == 16 and len(set(source)) == senders


def test_equal_seeds_give_equal_flows_whatever_is_forecast():
    one, again = (Jobs(SIZES, 16, forecast=forecast).flows(FABRIC, 0.6, 999, 5) for forecast in (Leaves(), Leaves(0.5)))
    other = Jobs(SIZES, 16).flows(FABRIC, 0.6, 999, 6)
    for name in ("start_ps", "size_bytes", "source", "target"):
        assert (getattr(one, name) == getattr(again, name)).all()
        assert (getattr(one, name) != getattr(other, name)).any()
    assert (one.lower_bytes != again.lower_bytes).any()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"width": 0}, "jobs.width is 0"),
        ({"width": 20, "ends": "shuffle"}, "jobs.width is 20, expected a square"),
        ({"width": 4, "ends": "ring"}, "jobs.ends is 'ring'"),
        ({"width": 4, "spread": float("nan")}, "jobs.spread is nan"),
        ({"width": 225, "ends": "shuffle"}, "needs 30 hosts, there are 24"),
    ],
)
def test_jobs_that_cannot_be_are_refused_by_name(words, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        Jobs(SIZES, **words).flows(FABRIC, 0.6, 10, 1)


def test_flows_to_one_rack_load_its_hosts_alike():
    workload = Workload("homa_w3_googleall_bytes", matrix=ToRack(1))
    flows = np.concatenate(list(flows_of(Experiment(FABRIC, workload=workload, load=0.4, flows=200_000))))
    wire = flows["size_bytes"] + 40 * -(-flows["size_bytes"].astype(np.int64) // 1460)
    received = np.bincount(flows["target"], wire, FABRIC.hosts) * 8 / (flows["start_ps"][-1] / 1e12)
    assert received[8:16].mean() / FABRIC.host_rate_bps == pytest.approx(0.4, rel=0.1)
    assert np.bincount(flows["target"])[8:16] == pytest.approx(25_000, rel=0.05)
    assert not received[:8].any() and not received[16:].any() and not ((flows["source"] // 8) == 1).any()
