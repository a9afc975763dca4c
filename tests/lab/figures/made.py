"""Points that no engine ran."""

import numpy as np

from lab.figures.points import Point


def made(small=1.0, medium=1.0, large=1.0, **counters):
    """Three flows, one a class, with these slowdowns; FCTs are a hundred times as many microseconds."""
    slowdown = np.array([small, medium, large], float)
    counters = {"data_packets": 1000, "drops": 0, "retransmissions": 0, "cpu_seconds": 0.0} | counters
    return Point(np.array([1_000, 1_000_000, 20_000_000]), 100 * slowdown, slowdown, counters)
