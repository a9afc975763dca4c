"""Drift: chance is not blamed, a changed traffic is, and only a better model is offered."""

from types import SimpleNamespace

import numpy as np
import pytest
from qclimb.hostfile import decode_forest
from qclimb.record import HAD_FOREST_BOUNDS
from qclimb.record_rows import KEPT

from orchestrator.ingest.recordings import kept_of
from orchestrator.models import drift, novelty
from orchestrator.models.training import train


def window(flows=2000, misses=0, fallbacks=0):
    return drift.Window(flows, flows, misses, fallbacks, 0.5)


def test_a_few_misses_are_chance_and_many_are_not():
    assert drift.drifted([window(misses=2)]) is None
    assert drift.drifted([window(misses=7)]) is None
    assert "9 of the newest 2000 flows lie outside" not in str(drift.drifted([window(misses=7)]))
    assert drift.drifted([window(misses=20)]).startswith(
        "20 of the newest 2000 flows lie outside their bounds (2000 had any), 2.0 are"
    )


def test_only_the_newest_window_counts():
    assert drift.drifted([window(misses=500), window()]) is None
    assert drift.drifted([window(), window(misses=500)]) is not None
    assert drift.drifted([]) is None


def test_never_seen_flows_are_drift_though_their_bounds_hold():
    assert drift.drifted([window(fallbacks=300)]) is None
    assert "never seen" in drift.drifted([window(fallbacks=500)])
    assert drift.drifted([window(flows=12, fallbacks=5)]) is None, "five of twelve are chance at 20 %"


def test_chance_is_rarely_blamed():
    random = np.random.default_rng(0)
    blamed = [drift.drifted([window(misses=int(m))]) is not None for m in random.binomial(2000, 0.001, 5000)]
    assert sum(blamed) <= 3


def test_flows_that_ended_before_they_asked_count_for_the_target_and_not_for_fallbacks():
    """The target is of all flows: eight misses of 400 with bounds are eight of 4000."""
    assert drift.drifted([drift.Window(4000, 400, 8, 0, 0.5)]) is None
    assert drift.drifted([drift.Window(400, 400, 8, 0, 0.5)]) is not None
    assert "150 of the newest 400 flows with bounds" in drift.drifted([drift.Window(4000, 400, 0, 150, 0.5)])
    assert drift.Window(4000, 400, 8, 40, 0.5).to_json()["coverage"] == 0.98
    assert drift.Window(4000, 400, 8, 40, 0.5).to_json()["fallback_share"] == 0.1


def test_windows_begin_with_the_first_flow_that_had_bounds_in_the_order_of_arrival():
    rows = np.zeros(9000, dtype=KEPT)
    rows["size_bytes"], rows["lower_bytes"], rows["upper_bytes"] = 100, 50, 200
    rows["flags"][1000:] = HAD_FOREST_BOUNDS
    rows["flags"][3000:3500] = 0
    rows["size_bytes"][8990:] = 999
    rows["upper_bytes"][1000:1100] = int(novelty.UNKNOWN[1])
    found = drift.reported(rows)
    assert [each.flows for each in found] == [2000, 2000, 2000, 2000]
    assert [each.bounded for each in found] == [2000, 1500, 2000, 2000]
    assert [each.misses for each in found] == [0, 0, 0, 10]
    assert [each.fallbacks for each in found] == [100, 0, 0, 0]
    assert [each.flows for each in drift.reported(rows[:4500])] == [3500], "what is left over is the newest window's"
    assert drift.reported(rows[:1000]) == []


def told_by(*hosts: tuple[str, int, int]):
    """Rows of hosts with so many flows, of which so many lie outside their bounds; whose they are."""
    rows = np.zeros(sum(flows for _, flows, _ in hosts), dtype=KEPT)
    rows["size_bytes"], rows["lower_bytes"], rows["upper_bytes"] = 100, 50, 200
    rows["flags"] = HAD_FOREST_BOUNDS
    names: list[str] = []
    for name, flows, misses in hosts:
        rows["size_bytes"][len(names) : len(names) + misses] = 999
        names += [name] * flows
    return rows, names


@pytest.mark.parametrize(
    ("hosts", "flows", "misses"),
    [
        ((("h1", 500, 0), ("liar", 500, 500), ("h2", 500, 1), ("h3", 500, 2)), 1500, 3),
        ((("h1", 500, 100), ("h2", 500, 120), ("h3", 500, 90)), 1000, 190),  # all of them
        ((("h1", 1200, 300), ("h2", 400, 0), ("h3", 400, 0)), 2000, 300),  # more than half of the flows
        ((("h1", 500, 300), ("h2", 500, 0)), 1000, 300),  # of two nobody knows which one errs
        ((("old", 4000, 4000), ("h1", 600, 0), ("h2", 600, 0), ("h3", 800, 5)), 1200, 0),  # the newest window's
    ],
)
def test_a_window_without_the_host_that_blames_most(hosts, flows, misses):
    rows, names = told_by(*hosts)
    found = drift.without_worst(rows, names, drift.reported(rows)[-1])
    assert (found.flows, found.misses) == (flows, misses)


@pytest.fixture(scope="module")
def before_and_after(records):
    """The same services, and then one of them sends a hundred times as much."""
    rows = kept_of(records)
    later = rows.copy()
    later["size_bytes"] *= 100
    later["features"][:, 2:7] *= 100
    return rows, later


def test_a_changed_traffic_is_told_and_a_new_model_is_offered(before_and_after):
    rows, later = before_and_after
    hosts = ["h1"] * len(rows)
    old = train(rows, hosts, 1, trees=6, depth=8)
    assert drift.drifted(drift.foretold(decode_forest(old.forest), later)) is not None
    new = train(later, hosts, 2, trees=6, depth=8, rival=old.forest)
    assert new.report["offer"]["offered"], new.report["offer"]


def test_a_model_that_is_no_better_is_not_offered(before_and_after):
    rows, _ = before_and_after
    hosts = ["h1"] * len(rows)
    good = train(rows, hosts, 1, trees=20, depth=8)
    again = train(rows, hosts, 2, trees=20, depth=8, rival=good.forest)
    assert again.report["offer"]["offered"] is False
    poor = train(rows, hosts, 3, trees=20, depth=8, features=["role"], rival=good.forest)
    assert poor.report["offer"]["offered"] is False, poor.report["offer"]


def saying(lower, upper):
    """A forest that says the same of every flow."""
    return SimpleNamespace(
        feature_ids=(0,), predict_bytes=lambda rows: (np.full(len(rows), lower), np.full(len(rows), upper))
    )


def test_a_model_that_would_be_flagged_itself_is_not_offered():
    rows = np.zeros(2000, dtype=KEPT)
    rows["size_bytes"] = np.linspace(1000, 10_000, 2000)
    old, little, good = (saying(*ends) for ends in ((1000, 2000), (1000, 8000), (1000, 10_000)))
    better, why = drift.offered(old, little, rows)
    assert not better and "it would be flagged itself: 445 of the newest 2000 flows lie outside" in why
    assert drift.offered(old, good, rows)[0]


def test_a_model_is_judged_by_the_flows_that_ask_for_bounds():
    """It knows nothing of 300 of 2000 flows, which are most of the 400 that asked the old model."""
    rows = np.zeros(2000, dtype=KEPT)
    rows["size_bytes"] = 100
    rows["size_bytes"][:300] = 50_000
    rows["features"][:300, 0] = 1
    old = saying(1000, 2000)
    new = SimpleNamespace(
        feature_ids=(0,),
        predict_bytes=lambda x: (np.where(x[:, 0] > 0, 1, 100), np.where(x[:, 0] > 0, novelty.UNKNOWN[1], 100)),
    )
    assert drift.offered(old, new, rows)[0], "15 % never seen"
    rows["flags"][:400] = HAD_FOREST_BOUNDS
    better, why = drift.offered(old, new, rows)
    assert not better and "300 of the newest 400 flows with bounds were never seen" in why


def test_the_score_can_be_cheated_neither_by_wide_nor_by_narrow_bounds():
    """Of all intervals for these sizes the one between the 0.5 and 99.5 % quantiles has the least score at 99 %."""
    sizes = np.exp(np.random.default_rng(1).normal(8, 1, 200_000))

    def of(share):
        ends = np.quantile(sizes, [(1 - share) / 2, (1 + share) / 2])
        return drift.score(*(np.full(len(sizes), end) for end in ends), sizes, 0.99)

    assert of(0.99) < min(of(0.9), of(0.98), of(0.996), of(0.9999))


def test_rest_tells_of_drift(admin, service, records):
    from dataclasses import replace

    good = [replace(r, flags=HAD_FOREST_BOUNDS, lower_bytes=1, upper_bytes=1 << 40) for r in records[:300]]
    wrong = [
        replace(r, flags=HAD_FOREST_BOUNDS, lower_bytes=0, upper_bytes=1) for r in records[:50] if r.size_bytes > 1
    ]
    service.recordings.add("a", "h1", good, None, 0)
    assert admin.get("/v1/flows/drift?label=a").json()["drifted"] is None
    service.recordings.add("a", "h1", wrong, None, 0)
    found = admin.get("/v1/flows/drift?label=a").json()
    assert found["windows"][-1]["misses"] == len(wrong)
    assert "outside their bounds" in found["drifted"]
