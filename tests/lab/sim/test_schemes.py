"""The table of schemes: each row runs and can do what it says, and a new one is a header and a row."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lab.cli.sim import sim
from lab.sim import NAMED, Experiment, ExperimentError, FlowList, Told, Topology, Watch, engine, run, star
from lab.sim.ports import strict_ports
from lab.sim.schemes import ROWS

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SMALL = Topology(leaves=3, spines=2, hosts_per_leaf=3)
WITHOUT_A_ROW = {"coflow", "fluid"}
"""The engine's words for experiments of other kinds."""


def to_one(n: int = 12) -> FlowList:
    """Flows to one host that meet there, small and large ones in each task; deadlines against the order of arrival."""
    at = np.arange(n)
    start, size = at * 10**7, (1 + (n - at) * 7 % n) * 200_000
    return FlowList(start, size, 1 + at % 8, at * 0, deadline_ps=start + (n - at) * 3 * 10**9, task=1 + at % 3)


def in_engine(program: Path) -> set[str]:
    """The words that an engine knows."""
    said = subprocess.run([program, "scheme=x"], capture_output=True, text=True).stderr
    return set(said.partition("expected one of ")[2].strip().split(", "))


def test_each_row_has_a_name_of_its_own_and_the_engine_no_scheme_without_a_row() -> None:
    assert len(NAMED) == len(ROWS)
    assert in_engine(engine.program()) == {row.settings()["scheme"] for row in ROWS} | WITHOUT_A_ROW


@pytest.mark.parametrize("name", NAMED)
def test_each_row_runs_and_can_do_what_it_says_and_nothing_else(name: str) -> None:
    scheme, flows = NAMED[name], to_one()
    can = scheme.can
    given = run(Experiment(SMALL, scheme, flows), checked=True)
    for is_used, without in ((can.deadlines, "deadline_ps"), (can.tasks, "task")):
        lacking = run(Experiment(SMALL, scheme, replace(flows, **{without: None})))
        assert (lacking.received_ps != given.received_ps).any() == is_used, without
    for is_possible, wish in (
        (not can.rated, {"routing": "spray"}),
        (scheme.priorities > 0, {"routing": "priority"}),
        (not can.flow_level, {"losses": ((0, 0.5),)}),
        (not can.flow_level, {"watch": Watch(9)}),
    ):
        if is_possible:
            run(Experiment(SMALL, scheme, flows, end_s=1e-3, **wish))
        else:
            with pytest.raises(ExperimentError, match=f"scheme {name}"):
                Experiment(SMALL, scheme, flows, **wish)


@pytest.mark.system
def test_a_new_scheme_is_a_header_and_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As lab/sim/README.md says it."""
    copied = tmp_path / "lab/sim/engine"
    shutil.copytree(ROOT / "lab/sim/engine", copied, ignore=shutil.ignore_patterns("build"))
    (tmp_path / "hostlib").symlink_to(ROOT / "hostlib")
    shutil.copy(HERE / "blast.h", copied / "schemes")
    make = ["make", "-C", str(copied), "CXXFLAGS=-O0", "V=1"]
    told = subprocess.run([*make, "-n"], check=True, capture_output=True, text=True).stdout
    assert all(f"-include {path.relative_to(copied)}" in told for path in (copied / "schemes").glob("*.h"))
    subprocess.run([*make, "SCHEMES=schemes/blast.h"], check=True)  # it alone: ten seconds less
    monkeypatch.setattr(engine, "program", lambda checked=False: copied / "build/qclimb-sim")
    monkeypatch.setitem(NAMED, "blast", Told("blast", {"timeout_ps": 10**9, **strict_ports(30_000, 10**9)}))

    alone = run(Experiment(star(3), NAMED["blast"], replace(to_one(1), task=None)))
    assert alone.received_ps == alone.ideal_ps
    crowd = run(Experiment(star(9), NAMED["blast"], to_one()))
    assert (crowd.received_ps > 0).all() and crowd.drops.sum() > 0 and crowd.timeouts.sum() > 0
    asked = CliRunner().invoke(sim, ["--scheme", "blast", "--flows", "20", "--leaves", "2", "--hosts-per-leaf", "2"])
    assert asked.exit_code == 0 and "blast, 4 hosts, 20 flows" in asked.output
    with pytest.raises(ExperimentError, match="scheme blast has no priorities"):
        Experiment(SMALL, NAMED["blast"], routing="priority")
