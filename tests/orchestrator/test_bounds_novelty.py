"""Never-seen flows: told by a tree of the forest itself, so that every executor falls back alike."""

import numpy as np
import pytest
from qclimb.features import DEFAULT_FEATURE_IDS
from qclimb.hostfile import decode_forest

from orchestrator.ingest.recordings import kept_of
from orchestrator.models import novelty, onnx_export
from orchestrator.models.training import train

PORT, LAST = DEFAULT_FEATURE_IDS.index(7), DEFAULT_FEATURE_IDS.index(2)


@pytest.fixture(scope="module")
def made(records):
    rows = kept_of(records)
    found = train(rows, ["h1"] * len(rows), 1, trees=6, depth=8)
    return rows["features"][:, : len(DEFAULT_FEATURE_IDS)], found


def falls_back(made, rows):
    """By the host file and by onnxruntime, which must agree."""
    rows = np.ascontiguousarray(rows, np.float32)
    lower, upper = decode_forest(made.forest).predict_bytes(rows)
    theirs = onnx_export.answers(made.onnx, rows)
    assert np.array_equal(novelty.is_fallback(upper), theirs[:, 1] >= novelty.UNKNOWN[1])
    assert (lower[novelty.is_fallback(upper)] <= 1).all()
    return novelty.is_fallback(upper)


def test_flows_like_those_seen_do_not_fall_back(made):
    rows, found = made
    shown = int(0.64 * len(rows))
    assert not falls_back(found, rows[np.argsort(rows[:, 0], kind="stable")][:shown]).any()
    assert found.report["never_seen"] == "fall back to PIAS"


@pytest.mark.parametrize("port", [1, 79, 81, 65535])
def test_a_service_that_was_never_seen_falls_back(made, port):
    rows, found = made
    assert port not in set(rows[:, PORT].tolist())
    changed = rows[:200].copy()
    changed[:, PORT] = port
    assert falls_back(found, changed).all()


def test_a_last_size_beyond_any_seen_falls_back(made):
    rows, found = made
    changed = rows[:200].copy()
    changed[:, LAST] = 1e15
    assert falls_back(found, changed).all()


def test_start_time_addresses_and_client_ports_are_not_novel(made):
    rows, found = made
    changed = rows[:200].copy()
    before = falls_back(found, changed)
    for name, value in ((0, 1e12), (9, 12345), (10, 54321)):
        changed[:, DEFAULT_FEATURE_IDS.index(name)] = value
    assert np.array_equal(falls_back(found, changed), before)


@pytest.mark.parametrize("services", [1, 2, 3, 7, 8, 40, 500])
def test_no_known_service_is_taken_for_novel_however_many_there_are(services):
    random = np.random.default_rng(services)
    ports = random.choice(np.arange(1, 65536), services, replace=False)
    rows = np.zeros((4 * services, 2), np.float32)
    rows[:, 0] = np.repeat(ports, 4)
    tree = novelty.guard(rows, np.full(len(rows), 100.0), (7, 2), 10, 0)
    leaf = tree.leaves(rows, 10)
    assert (tree.upper[leaf] == 100).all()
    assert (tree.child[leaf] == leaf).all()
    beyond = np.array([[0, 0], [65536, 0]], np.float32)
    assert (tree.upper[tree.leaves(beyond, 10)] == novelty.UNKNOWN[1]).all()


def test_ranges_close_the_smallest_gaps_first():
    assert novelty.known_ranges([80, 443, 8080, 8081], 4) == [(80, 80), (443, 443), (8080, 8080), (8081, 8081)]
    assert novelty.known_ranges([80, 443, 8080, 8081], 2) == [(80, 443), (8080, 8081)]


def test_without_the_port_nothing_is_recognised_and_the_report_says_so(records):
    rows = kept_of(records)
    made = train(rows, ["h1"] * len(rows), 1, trees=3, depth=8, features=["last_size_bytes_1", "gap_us"])
    assert made.report["never_seen"] == "not recognised"
