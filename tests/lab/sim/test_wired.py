"""Fat-trees, BCube and Jellyfish: that they are what they say, paths that servers relay, links that lose packets."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from lab.sim import (
    AllToAll,
    BCube,
    Experiment,
    ExperimentError,
    FatTree,
    FlowList,
    Jellyfish,
    Pdq,
    SimulationError,
    Staggered,
    Watch,
    Workload,
    run,
    scheme_named,
    star,
)
from lab.sim.engine import Process
from lab.sim.runner import flows_of, wiring_of
from lab.sim.topology import last_byte_ps

SMALL = (FatTree(k=4), BCube(n=2, k=2), Jellyfish(switches=8, ports=6, servers_per_switch=2, shortest=4))


def one(source, target, size=300_000):
    return FlowList(*(np.array([value], np.int64) for value in (0, size, source, target)))


@pytest.mark.parametrize("fabric", SMALL, ids=["fat-tree", "bcube", "jellyfish"])
def test_paths_lead_over_cables_from_end_to_end_without_a_loop(fabric):
    for source, target in combinations(range(fabric.hosts), 2):
        found = fabric.paths(source, target)
        assert len(set(found)) == len(found) >= 1
        for path in found:
            assert (path[0], path[-1]) == (source, target) and len(set(path)) == len(path)
            assert all(hop in fabric.links for hop in pairwise(path))


def test_a_fat_tree_has_its_hosts_cables_and_equal_paths():
    fabric = FatTree(k=6)
    assert fabric.hosts == 54 and len(fabric.links) == 2 * 3 * 54
    assert len(fabric.paths(0, 53)) == 9 and len(fabric.paths(0, 3)) == 3 and len(fabric.paths(0, 1)) == 1
    assert {len(path) for path in fabric.paths(0, 53)} == {7}


@pytest.mark.parametrize(("n", "k"), [(2, 3), (4, 1), (3, 2)])
def test_parallel_paths_of_bcube_share_no_server_and_no_link(n, k):
    fabric = BCube(n=n, k=k)
    assert fabric.hosts == n ** (k + 1) and len(fabric.links) == 2 * (k + 1) * fabric.hosts
    for source, target in combinations(range(fabric.hosts), 2):
        found = fabric.paths(source, target)
        assert len(found) == k + 1
        inner = [node for path in found for node in path[1:-1] if node < fabric.hosts]
        hops = [hop for path in found for hop in pairwise(path)]
        assert len(set(inner)) == len(inner) and len(set(hops)) == len(hops)


def test_a_jellyfish_is_regular_and_its_seed_is_all_that_changes_it():
    fabric = Jellyfish(switches=10, ports=8, servers_per_switch=3)
    assert {degree for _, degree in fabric.graph.degree} == {5} and fabric.hosts == 30
    lengths = [len(path) for path in fabric.paths(0, 29)]
    assert lengths == sorted(lengths) and len(lengths) == 8
    assert Jellyfish(switches=10, ports=8, servers_per_switch=3).links == fabric.links
    assert Jellyfish(switches=10, ports=8, servers_per_switch=3, seed=2).links != fabric.links


@pytest.mark.parametrize("fabric", SMALL, ids=["fat-tree", "bcube", "jellyfish"])
@pytest.mark.parametrize("scheme", ["pdq", "pfabric", "dctcp"])
def test_traffic_of_all_with_all_arrives(fabric, scheme):
    wanted = Experiment(fabric, scheme_named(scheme), Workload("imc10_pkts"), load=0.4, flows=120, header_bytes=56)
    found = run(wanted, checked=True)
    assert (found.received_ps > 0).all() and (found.slowdown > 0.2).all()


@pytest.mark.parametrize("fabric", SMALL, ids=["fat-tree", "bcube", "jellyfish"])
def test_a_flow_alone_takes_the_time_of_its_path_and_a_round_trip_of_headers(fabric):
    found = run(Experiment(fabric, Pdq(), one(0, 1), header_bytes=56), checked=True)
    took = []
    for hops in (len(path) - 1 for path in fabric.paths(0, 1)):
        asked = 2 * hops * (56 * 8_000 + 25_100_000)
        links = [(8_000, 25_100_000)] * hops
        took.append(asked + int(last_byte_ps(np.array([300_000]), links, 1460, 56)[0]))
    assert int(found.received_ps[0]) in took


def test_several_ports_carry_one_flow_at_once():
    alone, four = (
        run(Experiment(BCube(), Pdq(subflows=n), one(0, 15, 4_000_000), header_bytes=56), checked=True) for n in (1, 4)
    )
    assert 3.6 < alone.fct_us[0] / four.fct_us[0] < 4.1
    assert four.duplicates[0] == 0 and four.sent[0] == alone.sent[0]


def test_parts_of_a_flow_on_one_path_are_no_faster_than_one():
    fabric = star(4, 10**9, 25_100)
    one_part, three = (
        run(Experiment(fabric, Pdq(subflows=n), one(1, 0, 2_000_000), header_bytes=56), checked=True) for n in (1, 3)
    )
    assert one_part.fct_us[0] <= three.fct_us[0] < 1.25 * one_part.fct_us[0]


def test_no_part_waits_for_another_for_ever():
    wanted = Experiment(BCube(), Pdq(subflows=3), Workload("imc10_pkts"), load=0.6, flows=200, header_bytes=56)
    assert (run(wanted, checked=True).received_ps > 0).all()


def test_a_link_loses_the_share_that_it_is_told_to_and_all_arrives_all_the_same():
    fabric = star(4, 10**9, 25_100)
    wanted = Experiment(
        fabric, Pdq(timeout_us=600), one(1, 0, 3_000_000), header_bytes=56, losses=((4, 0.03), (0, 0.03))
    )
    found = run(wanted, checked=True)
    assert found.received_ps[0] > 0
    assert 0.01 < found.counters.drops_at["leaf to host"] / found.counters.data_packets < 0.06
    assert found.counters.drops_at["host"] == 0 and found.counters.control_drops > 0
    assert (run(wanted).received_ps == found.received_ps).all()


@pytest.mark.parametrize(("port", "lost"), [(1, "host"), (4, "leaf to host"), (0, ""), (5, "")])
def test_each_direction_of_a_link_loses_what_goes_that_way_alone(port, lost):
    """Data goes by ports 1 and 4, ACKs by 0 and 5."""
    fabric, flow = star(4, 10**9, 25_100), one(1, 0, 3_000_000)
    counters = run(Experiment(fabric, scheme_named("dctcp"), flow, losses=((port, 0.05),)), checked=True).counters
    data = {place: drops / counters.data_packets for place, drops in counters.drops_at.items() if drops}
    assert data == ({lost: pytest.approx(0.05, abs=0.015)} if lost else {})
    assert (counters.control_drops > 0) == (not lost)


def test_flows_of_a_pair_part_over_its_equal_paths_and_each_keeps_to_one():
    fabric, n = FatTree(k=4), 60
    flows = FlowList(np.arange(n) * 10**9, np.full(n, 14_600), np.zeros(n, np.int64), np.full(n, 15))
    sent = np.zeros((4, n), np.int64)
    for at, path in enumerate(fabric.paths(0, 15)):
        watch = Watch(fabric.links[path[2], path[3]], 10_000)
        watched = run(Experiment(fabric, scheme_named("dctcp"), flows, watch=watch)).counters.watched
        assert watched is not None
        sent[at, : len(watched["of_flow"])] = [sum(steps) for steps in watched["of_flow"]]
    assert (sent.sum(axis=0) == 10 * 1500).all() and ((sent > 0).sum(axis=0) == 1).all()
    assert (sent > 0).sum(axis=1).min() > 5


def test_a_port_is_watched_over_time():
    fabric = star(4, 10**9, 25_100)
    found = run(Experiment(fabric, Pdq(), one(1, 0, 1_000_000), header_bytes=56, watch=Watch(4, 1_000)), checked=True)
    watched = found.counters.watched
    assert watched is not None and sum(watched["sent_bytes"]) == sum(watched["of_flow"][0])
    assert sum(watched["sent_bytes"]) >= 1_000_000 * 1516 / 1460 and max(watched["queue_bytes"]) < 4_000
    assert max(watched["sent_bytes"]) == pytest.approx(125_000, rel=0.02)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FatTree(k=5), "topology.k is 5, expected an even number"),
        (lambda: FatTree(rate_bps=3), "topology.rate_bps is 3"),
        (lambda: BCube(4, 1), "topology.rate_bps is 4, expected 1,000,000 or more"),
        (lambda: BCube(n=1), "topology.n is 1"),
        (lambda: BCube(n=2.5), "topology.n is 2.5, expected a whole number"),
        (lambda: BCube(k=5), "topology.k is 5, expected 0 to 4"),
        (lambda: Jellyfish(switches=16), "topology.switches is 16, expected 17 to"),
        (lambda: Jellyfish(switches=9, ports=7, servers_per_switch=2), "make no regular graph"),
        (lambda: Jellyfish(servers_per_switch=24), "topology.servers_per_switch is 24"),
        (lambda: Experiment(star(4), losses=((0, 1.5),)), "losses has port 0 with share 1.5"),
        (lambda: Experiment(star(4), watch=Watch(-1)), "watch.port is -1"),
        (lambda: Experiment(FatTree(), routing="priority", scheme=scheme_named("pias")), "routing is 'priority'"),
        (
            lambda: Experiment(FatTree(), workload=Workload(load_of="core")),
            "workload.load_of is 'core', expected hosts",
        ),
    ],
)
def test_what_can_not_be_is_said_by_its_field(make, sentence):
    with pytest.raises(ExperimentError, match=sentence):
        make()


def test_the_engine_refuses_what_is_no_wiring():
    wanted = Experiment(FatTree(k=4), Pdq(), one(0, 15), header_bytes=56)
    whole = wiring_of(wanted)
    for ahead, sentence in (
        (whole[:100], "the wiring ends too early"),
        (b"\0" * len(whole), "expected 16 hosts"),
        (FatTree(k=4).wiring([(0, 3)]), "has no path from host 0 to host 15"),
    ):
        with pytest.raises(SimulationError, match=sentence):
            list(Process(wanted.settings(), flows_of(wanted), ahead=ahead))
    with pytest.raises(SimulationError, match="watched_port is 8, expected a whole number, -1 to 7"):
        run(Experiment(star(4), scheme_named("dctcp"), one(0, 1), watch=Watch(8)))
    with pytest.raises(SimulationError, match="lossy_ports"):
        run(Experiment(star(4), scheme_named("dctcp"), one(0, 1), losses=((99, 0.1),)))


def test_patterns_fit_other_fabrics():
    source, target = Staggered(1.0).pairs(np.random.default_rng(1), 200, FatTree(k=4))
    assert (source // 2 == target // 2).all() and (source != target).all()
    assert AllToAll().busiest_share(BCube()) == 1 / 16
