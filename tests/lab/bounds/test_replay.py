from dataclasses import replace

import numpy as np
import pytest

from lab.models.points import features_of
from lab.run.bounds.run import recording_of
from lab.run.settings import Bounds
from lab.workload.replay import busiest, read, replay
from lab.workload.sources import SOURCES, Source
from lab.workload.trace import Trace, load_of

NAMES = [f"h{n + 1}" for n in range(8)]
RATE = 25e6
SOURCE = Source("by hand", both_ways=True, windows=1)


def simple(make_recording, count=50, seed=3):
    """Answers of h1 and h3 to h2 and h4, connection by connection."""
    random = np.random.default_rng(seed)
    rows, at = [], 0.0
    for _ in range(count):
        at += random.exponential(5)
        sender, receiver = int(random.choice([0, 2])), int(random.choice([1, 3]))
        size = int(random.choice([40, 900, 30_000]))
        connection = 10 * sender + receiver
        rows.append(("web", at, sender, receiver, connection, 1, size, 20, min(size, 500)))
    return make_recording(*rows), rows


@pytest.mark.parametrize("load", [0.3, 0.5, 0.8])
def test_a_replay_keeps_order_and_sizes_and_carries_exactly_its_load(make_recording, load):
    recorded, rows = simple(make_recording)
    whole = [flow.bytes for seed in (0, 1) for flow in replay(recorded, SOURCE, seed, load, NAMES, RATE).flows]
    assert whole == [row[6] for row in rows]
    trace = replay(recorded, SOURCE, 1, load, NAMES, RATE)
    assert load_of(trace, 8, RATE) == pytest.approx(load, rel=1e-4)


def test_gaps_are_stretched_alike(make_recording):
    rows = [("a", at, 0, 1, 1, 1, 1000, 1000, 1000) for at in (0, 10, 20, 40, 50, 60, 62, 70)]
    trace = replay(make_recording(*rows), SOURCE, 1, 0.5, NAMES, RATE)
    at = np.array([flow.time_us for flow in trace.flows])
    recorded = np.diff([row[1] for row in rows][-len(at) :])
    assert np.diff(at) / recorded == pytest.approx(np.full(len(at) - 1, (at[1] - at[0]) / recorded[0]), rel=0.02)


def test_each_job_carries_the_load_by_itself_and_a_long_pause_counts_as_100_ms(make_recording):
    busy = [("busy", n, 0, 1, 1, 1, 50_000, 50_000, 50_000) for n in range(1, 21)]
    quiet = [("quiet", 1000 + 50 * n, 0, 1, 1, 1, 50_000, 50_000, 50_000) for n in range(1, 21)]
    quiet[10:] = [(task, at + 60_000, *more) for task, at, *more in quiet[10:]]
    source = Source("by hand", windows=1)
    trace = replay(make_recording(*busy, *quiet), source, 1, 0.5, NAMES, RATE)
    at = np.array([flow.time_us for flow in trace.flows]) / 1e6
    assert trace.flows[-1].time_us == pytest.approx(trace.seconds * 1e6, abs=2)
    assert len(at) == 31 and trace.seconds == pytest.approx(31 * (50_000 + 66 * 35) / (0.5 * RATE), rel=1e-4)
    # 11 of the busy job, 20 of the quiet one, whose pause of a minute was cut to twice its gap.
    assert at[10] == pytest.approx(11 / 31 * trace.seconds, rel=1e-4)
    gaps = np.diff(at[11:])
    assert gaps.max() / np.median(gaps) == pytest.approx(2, rel=1e-3)


def test_a_connection_stays_together_and_racks_stay_apart(make_recording):
    recorded, rows = simple(make_recording)
    flows = [flow for seed in (0, 1) for flow in [replay(recorded, SOURCE, seed, 0.5, NAMES, RATE)]]
    for trace, part in zip(flows, (rows[: len(flows[0].flows)], rows[len(flows[0].flows) :]), strict=True):
        pairs = {}
        for flow, row in zip(trace.flows, part, strict=True):
            pairs.setdefault(row[4], set()).add((flow.server, flow.client))
            rack = [int(name[1]) > 4 for name in (flow.server, flow.client)]
            assert (rack[0] == rack[1]) == ((row[2] < 2) == (row[3] < 2))
        assert all(len(each) == 1 for each in pairs.values())


def test_pieces_run_side_by_side_each_on_hosts_of_its_own(make_recording):
    """One server answers three workers: as one job it would be the end of all flows."""
    rows = [
        ("a", n, 0, 1 + n % 3, 1 + n % 3, 1, 1000 + n, 1000, 1000) for n in range(1000)
    ]  # fmt: skip
    recorded = make_recording(*rows)
    alone, together = (replace(SOURCE, at_once=at_once) for at_once in (1, 8))
    traces = [replay(recorded, source, 1, 0.5, NAMES, RATE) for source in (alone, together)]
    assert sorted(flow.bytes for flow in traces[0].flows) == sorted(flow.bytes for flow in traces[1].flows)
    assert load_of(traces[1], 8, RATE) == pytest.approx(0.5, rel=1e-4)
    assert busiest(traces[0]) > 2 and busiest(traces[1]) < 1.1
    pieces = {}
    for flow in traces[1].flows:
        pieces.setdefault(flow.server, []).append(flow.bytes)
    assert len(pieces) == 8
    for sizes in pieces.values():  # an eighth of the window, in the order of the recording
        assert sizes == list(range(sizes[0], sizes[0] + len(sizes)))
        assert len(sizes) == pytest.approx(len(traces[1].flows) / 8, rel=0.3)


def test_writes_are_those_that_were_recorded(make_recording):
    rows = [("a", n, 0, 1, 1, 1, size, first, asked) for n, (size, first, asked) in enumerate(
        [(50, 21, 40), (10, 5, 10), (900, 900, 900), (70, 21, 100)]
    )]  # fmt: skip
    rows = rows[:1] * 4 + rows
    found = [
        (f.bytes, f.first_write_bytes, f.footprint_bytes)
        for f in replay(make_recording(*rows), Source("x", windows=1), 1, 0.5, NAMES, RATE).flows
    ]
    assert found[-4:] == [(50, 21, 40), (32, 32, 32), (900, 900, 900), (70, 21, 70)]


def test_answers_are_pulled_and_the_other_side_pushes(make_recording):
    rows = [("a", n, n % 2, 1 - n % 2, 1, 1 - n % 2, 100, 100, 100) for n in range(10)]
    trace = replay(make_recording(*rows), SOURCE, 1, 0.5, NAMES, RATE)
    assert {flow.service for flow in trace.flows} == {"pull0", "push0"}
    assert len({(flow.client, flow.server) for flow in trace.flows}) == 1
    alone = replay(make_recording(*rows), Source("x", windows=1), 1, 0.5, NAMES, RATE)
    assert {flow.service for flow in alone.flows} == {"pull0"}


def test_what_a_flow_announced_comes_with_it_unless_more_was_asked_for():
    recorded = read("web")
    n = recorded.flows
    said = recorded.numbers["footprint_bytes"] + np.arange(n, dtype=np.uint64) % 2 - 1
    numbers = {**recorded.numbers, "announced_bytes": said, "announced_by": np.where(np.arange(n) % 3, 2, 3)}
    trace = replay(replace(recorded, numbers=numbers), SOURCES["web"], 1, 0.5, NAMES, RATE)
    told = [flow for flow in trace.flows if flow.announced_bytes]
    assert 0 < len(told) < len(trace.flows)
    assert all(flow.announced_bytes >= flow.footprint_bytes or flow.bytes == 32 for flow in told)
    assert trace.digest == replay(recorded, SOURCES["web"], 1, 0.5, NAMES, RATE).digest


@pytest.mark.parametrize("name", [name for name, source in SOURCES.items() if not source.parts])
def test_the_shipped_recordings_replay_evenly_and_read_back(name):
    source = SOURCES[name]
    trace = replay(recording_of(Bounds(sources=True), name), source, 1, 0.5, NAMES, source.host_rate_mbps * 1e6)
    assert Trace.from_text(trace.to_text()).digest == trace.digest
    assert busiest(trace) < 1.5
    assert {flow.service for flow in trace.flows} <= {endpoint.name for endpoint in source.endpoints}


def test_windows_are_parts_of_the_recording_that_share_no_flow():
    sizes = [
        [flow.bytes for flow in replay(read("web"), SOURCES["web"], seed, 0.5, NAMES, RATE).flows]
        for seed in range(SOURCES["web"].windows + 1)
    ]
    recorded = read("web")
    answers = recorded.numbers["size_bytes"][recorded.numbers["role"] == 1]
    assert [size for window in sizes for size in window] == answers.tolist()


def test_features_tell_what_came_before_on_the_same_way():
    text = "# t\n1 0 pull0 h1 h2 100\n2 10 pull0 h1 h2 200\n3 15 pull0 h2 h1 7777\n4 30 pull0 h1 h2 300\n"
    rows = features_of(Trace.from_text(text), {point.name: point for point in SOURCE.endpoints})
    assert rows[3][1:4].tolist() == [20, 200, 100]
    assert rows[2][2] == 0 and rows[0][1] == 1e9


def test_a_replay_needs_eight_hosts_and_a_load_below_one(make_recording):
    recorded, _ = simple(make_recording)
    with pytest.raises(ValueError, match="needs 8 hosts"):
        replay(recorded, SOURCE, 1, 0.5, NAMES[:4], RATE)
    with pytest.raises(ValueError, match="load is"):
        replay(recorded, SOURCE, 1, 1.2, NAMES, RATE)
