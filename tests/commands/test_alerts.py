"""Prometheus's rules and Grafana's dashboard name metrics that there are; Prometheus's own tool takes the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orchestrator.metrics import Metrics
from orchestrator.store.store import Store

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "packaging" / "prometheus"
RULES, SCRAPE, BOARD = (FOLDER / name for name in ("qclimb.rules.yml", "scrape.yml", "grafana.json"))


@pytest.fixture
def told(tmp_path: Path) -> set[str]:
    """The metrics that the orchestrator has, whether or not anything was counted."""
    store = Store(f"sqlite:///{tmp_path / 'store.db'}")
    families = text_string_to_metric_families(Metrics(store).render().decode())
    found = {
        name for family in families for name in (family.name, *(f"{family.name}_{end}" for end in ENDS[family.type]))
    }
    store.close()
    return found


ENDS = {"counter": ("total",), "histogram": ("bucket", "sum", "count"), "gauge": ()}


@pytest.mark.parametrize("file", [RULES, BOARD])
def test_every_metric_that_is_named_is_told(told: set[str], file: Path) -> None:
    named = set(re.findall(r"\bqclimb_[a-z_]+", file.read_text(encoding="utf-8")))
    assert len(named) > 5
    assert named <= told


def test_the_dashboard_is_whole_and_its_panels_do_not_overlap() -> None:
    board = json.loads(BOARD.read_text(encoding="utf-8"))
    taken = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert all(target["expr"] for target in panel["targets"])
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
def test_prometheus_takes_the_rules_and_they_fire_when_they_should(tmp_path: Path) -> None:
    cases = tmp_path / "alerts.yml"
    cases.write_text((HERE / "alerts.yml").read_text(encoding="utf-8").replace("RULES", str(RULES)), encoding="utf-8")
    for command in (["check", "rules", RULES], ["test", "rules", cases]):
        ran = subprocess.run(["promtool", *command], capture_output=True, text=True, timeout=300, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
