"""Recordings get their bounds from the command that trains, by forests that saw only earlier flows."""

import numpy as np
import pytest
from qclimb import recording

from lab.figures.page import Scale
from lab.figures.pages.book import PAGES
from lab.models import forests
from lab.sim import SimulationError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("forests")


@pytest.fixture
def kv(folder, monkeypatch):
    monkeypatch.setattr(forests, "FOLDER", folder)
    forests.recorded.cache_clear()
    yield forests.recorded("kv", depth=1, trees=2)
    forests.recorded.cache_clear()


def test_the_later_flows_of_a_recording_come_with_bounds_and_hosts(kv):
    found = recording.read(forests.RECORDINGS / "kv.parquet")
    n = len(kv.size_bytes)
    assert n == found.flows - int(found.flows * 0.4) and kv.hosts == 4
    assert (kv.size_bytes == found.numbers["size_bytes"][-n:]).all() and (kv.source != kv.target).all()
    inside = (kv.lower_bytes <= kv.size_bytes) & (kv.size_bytes <= kv.upper_bytes)
    assert inside.mean() > 0.99 and (kv.proven_bytes <= kv.size_bytes).all()
    assert len(kv.threshold_bytes) == 7 and (np.diff(kv.threshold_bytes) > 0).all()


def test_forests_are_kept_and_not_grown_again(kv, monkeypatch):
    monkeypatch.setattr(forests, "_foretell", lambda *words: 1 / 0)
    forests.recorded.cache_clear()
    assert (forests.recorded("kv", depth=1, trees=2).lower_bytes == kv.lower_bytes).all()
    with pytest.raises(ZeroDivisionError):
        forests.recorded("kv", depth=2, trees=2)


def test_what_is_kept_is_of_the_orchestrators_rules_as_they_are(kv, monkeypatch):
    monkeypatch.setattr(forests, "_rules", lambda: "others")
    monkeypatch.setattr(forests, "_foretell", lambda *words: 1 / 0)
    forests.recorded.cache_clear()
    with pytest.raises(ZeroDivisionError):
        forests.recorded("kv", depth=1, trees=2)


def test_a_recording_that_is_not_there_is_one_sentence():
    with pytest.raises(SimulationError, match=r"nothing\.parquet"):
        forests.recorded("nothing")


def test_pages_on_recordings_are_run_and_told(kv, monkeypatch, tmp_path):
    from lab.figures.pages.qclimb import bounds, recorded
    from lab.figures.sweep import run_all

    for module in (bounds, recorded):
        monkeypatch.setattr(module, "recorded", lambda name, *kind: kv)
    for name in ("qclimb-recorded", "qclimb-22", "qclimb-bounds"):
        page, scale = PAGES[name], Scale("quick", 60, (1,), (0.7,))
        story = page.tell(scale, run_all(page.runs(scale), tmp_path, 2))
        assert story.rows and story.panels and story.verdicts and story.verdict
