"""One number for each flow's size, as QCLIMB-FP and -PP need it: a random forest's mean (the paper's Fig. 1).

The features are those that the library has for its forest (DESIGN.md 3.1; ids 0 to 10), computed from the plan: times
are the trace's, and the sizes before are those of the flows that start earlier in the same history (sending process,
peer, service port, role). It is learnt from the trace's part 0 at the same load. QCLIMB's own bounds come from the
hosts' records of a pass over that part, so both learn from the same flows.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.experiment.store import replace_text
from lab.workload.services import Endpoint
from lab.workload.trace import Trace

TREES, DEPTH = 100, 10
LAST = 5
LONGEST_GAP_US = 1e9


def features_of(trace: Trace, endpoints: Mapping[str, Endpoint]) -> NDArray[np.float64]:
    """[flows, 11]: start_us, gap_us, the last five sizes, service port, role, peer, local host."""
    rows = np.zeros((len(trace.flows), 4 + LAST + 2))
    history: dict[tuple[str, ...], tuple[float, deque[int]]] = {}
    number = {
        name: n for n, name in enumerate(sorted({f.client for f in trace.flows} | {f.server for f in trace.flows}))
    }
    for n, flow in enumerate(trace.flows):
        pulled = endpoints[flow.service].how == "pull"
        sender, receiver = (flow.server, flow.client) if pulled else (flow.client, flow.server)
        before_us, sizes = history.get((sender, receiver, flow.service), (-LONGEST_GAP_US, deque(maxlen=LAST)))
        gap_us = min(flow.time_us - before_us, LONGEST_GAP_US)
        last = [*reversed(sizes), *[0] * (LAST - len(sizes))]
        port = endpoints[flow.service].port
        rows[n] = [flow.time_us, gap_us, *last, port, float(pulled), number[receiver], number[sender]]
        sizes.append(flow.bytes)
        history[sender, receiver, flow.service] = (flow.time_us, sizes)
    return rows


def foretold(learnt_from: Trace, trace: Trace, endpoints: Mapping[str, Endpoint], folder: Path) -> list[float]:
    """Sizes in bytes foretold for a trace's flows, in its order; kept in the folder, as it takes seconds."""
    path = folder / f"points-{learnt_from.digest[:12]}-{trace.digest[:12]}.json"
    if path.is_file():
        return [float(point) for point in json.loads(path.read_text(encoding="utf-8"))]
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_estimators=TREES, max_depth=DEPTH, random_state=0)
    forest.fit(features_of(learnt_from, endpoints), [flow.bytes for flow in learnt_from.flows])
    points = [round(float(point), 1) for point in forest.predict(features_of(trace, endpoints))]
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps(points))
    return points
