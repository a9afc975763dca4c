"""`qclimb lab run tagger`: its cells run, leave nothing, and make a table."""

import os
import shutil
from dataclasses import replace

import pytest
from qclimb.policy import default_dscp

from lab.fabric import netns
from lab.run.settings import Tagger
from lab.run.tagger.cells import GROUNDS, NO_LOSS, VARIANTS, prefix_of_process, run_cell
from lab.run.tagger.report import HEAD, interval, receiver, row
from lab.run.tagger.run import cell, cells_of


def test_a_flow_climbs_in_four_equal_chunks():
    assert NO_LOSS.thresholds == (50_000, 100_000, 150_000)
    assert NO_LOSS.climb() == [[n * 50_000, dscp] for n, dscp in enumerate(reversed(default_dscp(4)))]


def test_each_cell_is_wanted_once_and_no_variant_is_always_first():
    cells = cells_of(Tagger(seeds=(1, 2)))
    assert len(set(cells)) == len(cells) == 2 * len(GROUNDS) * len(VARIANTS)
    firsts = {next(one.scheme for one in cells if one.repeat == seed) for seed in (1, 2)}
    assert len(firsts) == 2


def test_an_interval_holds_its_value():
    assert interval([[1.0] * 10, [1.0] * 10], "mean") == "1.0 [1.0, 1.0]"


@pytest.mark.fabric
@pytest.mark.parametrize("variant", ["writes", "filter", "kernel"])
def test_a_cell_measures_each_flow_and_leaves_nothing(variant, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    for tool in ("ip", "tc", "bpftool", "clang"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    prefix = prefix_of_process()
    found = run_cell(cell("none", variant, 1), replace(NO_LOSS, flows=2), prefix, tmp_path)
    assert [flow["fct_ms"] > 0 for flow in found.flows] == [True, True]
    assert bool(found.tagger) == VARIANTS[variant].tagger
    assert not any(netns.exists(f"{prefix}-{host}") for host in ("a", "b", "c", "sw"))
    assert len(row("none", variant, [found])) == len(HEAD)
    ((_, *texts),) = receiver("none", {("none", variant): [found]})
    assert all(float(text.split()[0].rstrip("%")) >= 0 for text in texts)
    assert found.held["packets"] >= 2 * NO_LOSS.flow_bytes // 1448
    assert found.receiver_cpu_s > 0 and found.softirq_s > 0
