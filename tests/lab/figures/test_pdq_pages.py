"""PDQ's pages: the flows of its query aggregation, and a page told from a few of them."""

from dataclasses import replace

import numpy as np
import pytest

from lab.figures.page import Scale
from lab.figures.pages.pdq import aggregation
from lab.figures.sweep import run_all

TWO = Scale("quick", 25, (1, 2), (1.0,))


def test_flows_come_from_eleven_hosts_as_evenly_as_they_go():
    found = aggregation.flows(25, 100_000, 1, True)
    counts = np.bincount(found.source, minlength=12)
    assert counts[0] == 0 and set(counts[1:]) == {2, 3} and (found.target == 0).all() and (found.start_ps == 0).all()
    assert found.size_bytes.min() >= 2_000 and found.size_bytes.max() <= 198_000
    assert found.deadline_ps.min() >= 3 * 10**9
    assert aggregation.flows(25, 100_000, 1, False).deadline_ps is None


@pytest.mark.parametrize(("deadlines", "unit"), [(True, 1.0), (False, 1000.0)])
def test_a_page_is_run_and_told(deadlines, unit, tmp_path):
    which = aggregation.FIGURES["a" if deadlines else "d"]
    figure = replace(which, values=(1, 5), made=lambda n, seed: aggregation.flows(n, 20_000, seed, deadlines))
    story = figure.tell(TWO, run_all(figure.runs(TWO), tmp_path, 2))
    assert [row["flows"] for row in story.rows] == ["1", "5"]
    assert story.rows[0]["PDQ(Full)"].startswith("1.00 " if deadlines else "0.")
    assert len(story.verdicts) == 1 + len(figure.claims) and "PDQ(Full) over: optimum" in story.verdicts[0]
    assert len(story.panels[0].series) == 1 + len(figure.schemes)
