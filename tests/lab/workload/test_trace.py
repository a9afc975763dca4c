from collections import Counter, defaultdict

import numpy as np
import pytest

from lab.workload.services import SCALE, SERVICES, service, size_class
from lab.workload.trace import Trace, catalogue, describe, load_of, make_trace, wire_bytes

HOSTS = [f"h{n + 1}" for n in range(8)]
RATE = 25e6


@pytest.fixture(scope="module")
def long_trace() -> Trace:
    return make_trace(0.6, 7, 600, HOSTS, RATE)


@pytest.mark.parametrize("load", [0.4, 0.6, 0.8])
@pytest.mark.parametrize("seed", [1, 2, 1000])
def test_a_trace_carries_exactly_the_load_it_is_named_for(load, seed):
    assert load_of(make_trace(load, seed, 4, HOSTS, RATE), 8, RATE) == pytest.approx(load, rel=1e-4)


def test_load_is_payload_and_headers_over_capacity():
    trace = Trace.from_text("#\n# seconds 2\n1 0 search h1 h2 1448\n2 5 kv h2 h1 1449\n")
    assert load_of(trace, 2, 8000) == (1448 + 66 + 1449 + 132) * 8 / (2 * 2 * 8000)
    assert wire_bytes(1448) == 1514 and wire_bytes(1449) == 1449 + 132


def test_equal_arguments_give_equal_bytes_and_another_seed_gives_others():
    text = make_trace(0.6, 3, 3, HOSTS, RATE).to_text()
    assert make_trace(0.6, 3, 3, HOSTS, RATE).to_text() == text
    assert make_trace(0.6, 4, 3, HOSTS, RATE).to_text() != text


def test_a_file_reads_back_as_it_was_written(tmp_path):
    trace = make_trace(0.4, 3, 5, HOSTS, RATE)
    (tmp_path / "trace").write_text(trace.to_text())
    again = Trace.read(tmp_path / "trace")
    assert again == trace and again.digest == trace.digest and again.seconds == trace.seconds


def test_a_replays_seed_shares_no_flow_order_with_the_recordings():
    recording, replay = (make_trace(0.6, seed, 6, HOSTS, RATE) for seed in (1000, 1))
    sizes = [[flow.bytes for flow in trace.flows if flow.service == "store"] for trace in (recording, replay)]
    assert sizes[0][:50] != sizes[1][:50]


def test_gaps_are_those_of_a_poisson_process(long_trace):
    gaps = np.diff([flow.time_us for flow in long_trace.flows])
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.03)
    # Memoryless: the share of gaps above one mean is 1/e.
    assert (gaps > gaps.mean()).mean() == pytest.approx(np.exp(-1), abs=0.01)


def test_pairs_are_uniform_and_never_a_host_with_itself(long_trace):
    for names, count in ((("search", "shuffle", "kv"), 56), (("store",), 16)):
        pairs = Counter((flow.client, flow.server) for flow in long_trace.flows if flow.service in names)
        assert len(pairs) == count and all(client != server for client, server in pairs)
        expected = sum(pairs.values()) / count
        assert all(abs(flows - expected) < 5 * expected**0.5 for flows in pairs.values())


def test_every_host_uploads_to_and_serves_as_many_stores(long_trace):
    pairs = {(flow.client, flow.server) for flow in long_trace.flows if flow.service == "store"}
    for end in (0, 1):
        assert set(Counter(pair[end] for pair in pairs).values()) == {2}


def test_files_are_served_by_every_second_host_only(long_trace):
    assert {flow.server for flow in long_trace.flows if flow.service == "files"} == {"h1", "h3", "h5", "h7"}


def test_most_flows_are_small_and_most_bytes_are_in_few_flows(long_trace):
    shares = describe(long_trace.flows)
    assert shares["small"]["flows"] >= 0.5
    assert shares["large"]["flows"] < 0.05 and shares["large"]["bytes"] > 0.35
    biggest = sorted((flow.bytes for flow in long_trace.flows), reverse=True)
    tenth = sum(biggest[: len(biggest) // 10])
    assert tenth > 0.7 * sum(biggest)


@pytest.mark.parametrize("name", ["search", "store", "shuffle", "kv"])
def test_a_services_sizes_keep_their_published_distribution(long_trace, name):
    found = service(name)
    sizes = np.array([flow.bytes for flow in long_trace.flows if flow.service == name])
    assert sizes.mean() == pytest.approx(found.mean_bytes, rel=0.08)
    for share in (0.25, 0.5, 0.75):
        lowest, highest = found.lowest_share, found.highest_share
        wanted = float(found.sizes.quantile(lowest + (highest - lowest) * share)) / SCALE
        assert (sizes <= wanted).mean() == pytest.approx(share, abs=0.05)


def by_pair(trace, name):
    pairs = defaultdict(list)
    for flow in trace.flows:
        if flow.service == name:
            pairs[flow.client, flow.server].append(np.log(flow.bytes))
    return pairs


def test_a_stores_peers_tell_its_sizes_in_another_trace_too(long_trace):
    other = by_pair(make_trace(0.6, 1000, 120, HOSTS, RATE), "store")
    ours = by_pair(long_trace, "store")
    common = sorted(set(ours) & set(other))
    means = [[np.mean(pairs[pair]) for pair in common] for pairs in (ours, other)]
    assert np.corrcoef(*means)[0, 1] > 0.8
    # Informative, yet not trivially so: sizes still vary within a pair.
    within = np.mean([np.std(ours[pair]) for pair in common])
    assert 0.05 * np.std(means[0]) < within


def test_a_shuffles_last_size_tells_the_next_and_a_searches_does_not(long_trace):
    def correlation(name):
        pairs = by_pair(long_trace, name).values()
        before = np.concatenate([sizes[:-1] for sizes in pairs])
        after = np.concatenate([sizes[1:] for sizes in pairs])
        return np.corrcoef(before, after)[0, 1]

    assert correlation("shuffle") > 0.7
    assert abs(correlation("search")) < 0.3


def test_flow_shares_sum_to_one_and_ports_differ():
    assert sum(found.flow_share for found in SERVICES) == pytest.approx(1)
    assert len({found.port for found in SERVICES}) == len(SERVICES)


def test_a_catalogues_mean_is_near_its_tables():
    found = service("files")
    assert np.mean(catalogue(found)) == pytest.approx(found.mean_bytes, rel=0.1)


def test_class_limits_are_the_papers_to_scale():
    assert [size_class(size) for size in (5000, 5001, 500_000, 500_001)] == ["small", "medium", "medium", "large"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 0 search h1 h2", "t:1: expected id, time_us"),
        ("1 0 search h1 h1 100", "client and server are both h1"),
        ("1 0 search h1 h2 31", "bytes >= 32"),
        ("1 -5 search h1 h2 100", "time_us must be"),
        ("1 9 kv h1 h2 100\n2 8 kv h1 h2 100", "t:2: time_us 8 is before"),
    ],
)
def test_a_damaged_file_is_refused_by_line(line, words):
    with pytest.raises(ValueError, match=words):
        Trace.from_text(line, "t")


@pytest.mark.parametrize("load", [0, -1, float("nan"), 2])
def test_an_impossible_load_is_refused(load):
    with pytest.raises(ValueError, match="load is"):
        make_trace(load, 1, 5, HOSTS, RATE)
