"""The engine's two record layouts (engine/core/stream.h), and its `key=value` words."""

from __future__ import annotations

import numpy as np

UNKNOWN_BYTES = 2**64 - 1
"""An upper bound that nobody knows."""
MOST_PS = 2**62
"""Of a start, and of a run's end."""

FLOW = np.dtype(
    [
        ("start_ps", "<i8"),
        ("size_bytes", "<u8"),
        ("lower_bytes", "<u8"),
        ("upper_bytes", "<u8"),
        ("forecast_bytes", "<u8"),
        ("deadline_ps", "<i8"),
        ("task", "<u8"),
        ("task_largest_bytes", "<u8"),
        ("source", "<u4"),
        ("target", "<u4"),
        ("group", "<u8"),
    ]
)
"""A flow as the engine takes it: ascending in start; bounds 0 and UNKNOWN_BYTES where nothing is forecast;
deadline 0 where there is none; task 0 where a flow is its own (engine/core/stream.h)."""

RESULT = np.dtype(
    [
        ("index", "<u8"),
        ("start_ps", "<i8"),
        ("received_ps", "<i8"),
        ("acked_ps", "<i8"),
        ("size_bytes", "<u8"),
        ("sent", "<u4"),
        ("drops", "<u4"),
        ("timeouts", "<u4"),
        ("duplicates", "<u4"),
    ]
)
"""A flow as the engine gives it back, when it is over; times of what has not happened are -1."""

LAST_INDEX = 2**64 - 1
"""Of the record behind all flows, whose start is the length of the JSON text of counters that follows."""
