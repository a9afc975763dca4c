"""A little of a recording through the whole of it: fabric, hosts' records, thresholds, forest, passes, page."""

import io
import os
from dataclasses import replace

import pytest
from rich.console import Console

from lab.run.bounds import run
from lab.run.bounds.report import write_report
from lab.run.bounds.run import run_bounds
from lab.run.settings import Bounds
from lab.workload.replay import read
from lab.workload.sources import SOURCES

pytestmark = [pytest.mark.fabric, pytest.mark.system]
FLOWS = 1600
SCHEMES = ("pias", "qclimb-forest", "qclimb-fp", "qclimb-ps")


@pytest.fixture
def little(monkeypatch):
    """The first answers of the web recording, in one window."""
    whole = read("web")
    part = replace(
        whole,
        numbers={name: values[:FLOWS] for name, values in whole.numbers.items()},
        texts={name: values[:FLOWS] for name, values in whole.texts.items()},
        features=whole.features[:FLOWS],
    )
    monkeypatch.setattr(run, "read", lambda name: part)
    monkeypatch.setitem(SOURCES, "web", replace(SOURCES["web"], windows=1))


def test_a_recording_is_replayed_judged_and_not_measured_twice(little, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    settings = Bounds(("web",), (7,), (0.5,), (1,), SCHEMES, prefix=f"t{os.getpid()}bo", folder=tmp_path / "results")
    plan = run_bounds(settings, Console(file=io.StringIO()))
    assert not plan.missing and len(plan.results) == len(SCHEMES)
    assert {result.trace_digest for result in plan.results.values()} == {plan.traces["web", 0.5, 1].digest}
    assert not any(result.failures for result in plan.results.values())
    page = write_report(plan, tmp_path / "page.md")
    assert "QCLIMB, forest alone is less than in PIAS" in page and "| web | 0.5 | small |" in page
    assert (tmp_path / "page-7-11.svg").is_file()
    again = run_bounds(replace(settings, stored=True), Console(file=io.StringIO()))
    assert not again.missing
