"""pFabric against YAPS on two fixed flow lists (144 hosts, 10G/40G, spraying), and the rules of its own."""

from pathlib import Path

import numpy as np
import pytest

from lab.sim import Experiment, FlowList, Pfabric, run, star
from lab.sim.flowlist import read_flow_list

LISTS = Path(__file__).parents[4] / "shared/data/flowlists"

YAPS = {
    # list, routing, its first flows (all are 10,000): mean FCT us of all, small; small p99; mean of medium, large. FCT
    # as in YAPS: until the last ACK.
    ("websearch", "spray", 2_000): (2429.0, 42.43, 94.8, 3439.6, 32435),
    ("websearch", "ecmp", 2_000): (2473.4, 42.44, 95.8, 3494.6, 33157),
    ("datamining", "spray", 1_000): (7567.9, 16.65, 67.2, 867.1, 137775),
    ("websearch", "spray", 10_000): (3460, 42.7, 96.6, 4113, 54910),
    ("websearch", "ecmp", 10_000): (3633, 42.7, 96.0, 4223, 59042),
    ("datamining", "spray", 10_000): (8925, 17.2, 74.4, 906, 182439),
}
WITHIN = (0.015, 0.05, 0.15, 0.02, 0.02)
LONG, SHORT = pytest.mark.system, ("websearch", "spray", 2_000)


@pytest.mark.parametrize(
    ("name", "routing", "count"), [pytest.param(*case, marks=[LONG] * (case != SHORT)) for case in YAPS]
)
def test_fcts_on_the_fixed_lists_are_those_of_yaps(summary_of, name, routing, count):
    path = LISTS / f"{name}_load0.6_10000flows_10g.txt.gz"
    if not path.exists():
        pytest.skip(f"the flow list {path.name} is not here")
    flows = read_flow_list(path)
    first = FlowList(flows.start_ps[:count], flows.size_bytes[:count], flows.source[:count], flows.target[:count])
    found = Experiment(scheme=Pfabric(), workload=first, routing=routing)
    every, small, medium, large = summary_of(found)
    got = (
        every["acked_mean_us"],
        small["acked_mean_us"],
        small["acked_p99_us"],
        medium["acked_mean_us"],
        large["acked_mean_us"],
    )
    for mine, theirs, tolerance in zip(got, YAPS[name, routing, count], WITHIN, strict=True):
        assert mine == pytest.approx(theirs, rel=tolerance)


def incast(senders: int, size: int) -> FlowList:
    """All at once into the last host."""
    zeros = np.zeros(senders, np.int64)
    return FlowList(zeros, zeros + size, np.arange(senders), zeros + senders)


def test_a_full_buffer_drops_what_has_most_left():
    flows = incast(10, 500_000)
    flows.size_bytes[:5] = 40_000
    found = run(Experiment(star(11), Pfabric(), flows, flows=10), checked=True)
    assert found.drops[5:].sum() > 0
    assert found.received_ps[:5].max() < found.received_ps[5:].min()


def test_probes_end_a_row_of_timeouts():
    flows = incast(40, 300_000)
    without = run(Experiment(star(41), Pfabric(), flows, flows=40), checked=True)
    probing = run(Experiment(star(41), Pfabric(probe_after=5), flows, flows=40), checked=True)
    assert (probing.received_ps > 0).all()
    assert probing.drops.sum() < without.drops.sum()


def test_a_wrong_forecast_puts_a_flow_in_the_wrong_place():
    flows = incast(2, 1_000_000)
    told = FlowList(
        flows.start_ps,
        np.array([1_000_000, 2_000_000]),
        flows.source,
        flows.target,
        forecast_bytes=np.array([3_000_000, 2_000_000], np.uint64),
    )
    true = run(Experiment(star(3), Pfabric(), told, flows=2))
    wrong = run(Experiment(star(3), Pfabric(sizes_are_forecasts=True), told, flows=2))
    assert true.received_ps[0] < true.received_ps[1]
    assert wrong.received_ps[1] < wrong.received_ps[0]


def test_a_flow_whose_acks_are_lost_ends():
    """All of its window has arrived, and the sender does not know: without data to send it asks."""
    count, size = 300, 100_000
    flows = FlowList(np.arange(count) * 10**9, np.full(count, size), np.ones(count, int), np.zeros(count, int))
    for losses in (((12, 0.02), (0, 0.02)), ((12, 0.2), (0, 0.2))):
        found = run(Experiment(star(12, 10**9, 25_100), Pfabric(timeout_us=900.0), flows, losses=losses), checked=True)
        assert (found.acked_ps >= found.received_ps).all() and (found.received_ps > 0).all()
