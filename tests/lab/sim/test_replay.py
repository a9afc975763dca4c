"""A recording played in the fabric: sizes, order and proportions of gaps as recorded, load as asked, bounds its own."""

from dataclasses import replace

import numpy as np
import pytest

from lab.sim import Experiment, ExperimentError, Pfabric, Topology, run
from lab.sim.replay import Recorded, replay

FABRIC = Topology(3, 2, 8)
RANDOM = np.random.default_rng(1)
N = 5_000


def made():
    source = RANDOM.integers(0, 4, N)
    size = RANDOM.integers(1, 200_000, N).astype(np.uint64)
    return Recorded(
        "made",
        np.cumsum(RANDOM.integers(1, 10**6, N)).astype(np.uint64),
        size,
        source,
        (source + RANDOM.integers(1, 4, N)) % 4,
        size // 3,
        size * 2,
        size,
        size // 2,
        (10_000, 50_000),
    )


RECORDED = made()


def test_the_load_is_the_one_asked_for_and_about_as_many_flows_come():
    flows = replay(RECORDED, FABRIC, 0.6, 4_000, 1)
    assert len(flows.size_bytes) == pytest.approx(4_000, rel=0.1)
    wire = flows.size_bytes + 40 * -(-flows.size_bytes // 1460)
    seconds = flows.start_ps[-1] / 1e12
    assert wire.sum() * 8 / seconds / (FABRIC.hosts * FABRIC.host_rate_bps) == pytest.approx(0.6, rel=0.02)


def test_a_copys_flows_keep_their_order_sizes_and_proportions_of_gaps():
    one = Topology(1, 0, 4)  # four copies of four hosts
    whole = replay(RECORDED, one, 0.6, 4 * N, 1)
    assert len(whole.size_bytes) == 4 * N
    assert (np.sort(whole.size_bytes) == np.repeat(np.sort(RECORDED.size_bytes.astype(np.int64)), 4)).all()
    short = replay(RECORDED, one, 0.6, 40, 1)
    row = [int(np.flatnonzero(RECORDED.size_bytes == size)[0]) for size in short.size_bytes]
    gaps = {}
    for place, recorded in enumerate(row):
        before = recorded - 1
        if before in row[:place]:
            recorded_gap = int(RECORDED.start_ns[recorded]) - int(RECORDED.start_ns[before])
            gaps[recorded] = (short.start_ps[place] - short.start_ps[row.index(before)]) / recorded_gap
    assert len(gaps) > 20 and np.std(list(gaps.values())) / np.mean(list(gaps.values())) < 0.01


def test_every_host_plays_each_recorded_host_alike_and_none_sends_to_itself():
    flows = replay(RECORDED, FABRIC, 0.6, 24 * N, 2)  # each copy plays all
    assert (flows.source != flows.target).all()
    assert len(set(np.bincount(flows.source, minlength=24))) == 1


def test_bounds_grow_with_sizes_and_are_at_least_what_was_proven():
    once, often = (replay(RECORDED, FABRIC, 0.6, 2_000, 3, times=times) for times in (1, 100))
    for name in ("size_bytes", "lower_bytes", "upper_bytes", "forecast_bytes"):
        assert (getattr(once, name).astype(np.int64) * 100 == getattr(often, name).astype(np.int64)).all()
    proven = replay(RECORDED, FABRIC, 0.6, 2_000, 3, proven=True)
    assert (once.lower_bytes.astype(np.int64) == once.size_bytes // 3).all()
    assert (proven.lower_bytes.astype(np.int64) == proven.size_bytes // 2).all()


def test_other_seeds_give_other_hosts_and_a_replay_can_be_run():
    one, same, other = (replay(RECORDED, FABRIC, 0.6, 300, seed) for seed in (1, 1, 2))
    assert (one.start_ps == same.start_ps).all() and (one.target == same.target).all()
    assert len(one.target) != len(other.target) or (one.target != other.target).any()
    assert np.isfinite(run(Experiment(FABRIC, Pfabric(), one)).fct_us).all()


@pytest.mark.parametrize(
    ("change", "words", "sentence"),
    [
        ({"source": RECORDED.source + 30}, {}, "made has 34 hosts, the topology 24"),
        ({}, {"times": 0}, "times is 0"),
        ({}, {"count": 0}, "none of made begins in windows that short"),
    ],
)
def test_what_cannot_be_played_is_refused(change, words, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        replay(
            **{
                "recorded": replace(RECORDED, **change),
                "topology": FABRIC,
                "load": 0.6,
                "count": 99,
                "seed": 1,
                **words,
            }
        )
