"""Classes pinned to spines in a fabric of real TCP: a spine is lost in three ways, and no connection with it."""

from functools import partial

import pytest

from lab.control.plane import start_control
from lab.control.spines import class_states, pin
from lab.fabric import Fabric, Topology
from lab.run.bigspine.loss import LEAF, SERVE, WAYS, trial
from tests.lab.fabric.conftest import why_not

pytestmark = [pytest.mark.fabric, pytest.mark.system]


@pytest.fixture(scope="module")
def spines(prefix_for):
    if reason := why_not():
        pytest.skip(reason)
    with Fabric(
        Topology(leaves=2, spines=2, hosts_per_leaf=1), prefix_for("spn"), control=partial(start_control, serve=SERVE)
    ) as fabric:
        pin(fabric, 2)
        yield fabric


@pytest.mark.parametrize("way", WAYS)
def test_no_connection_is_lost_with_a_spine(spines: Fabric, way: str) -> None:
    found = trial(spines, way, 1)
    assert found["error"] == ""
    assert set(class_states(spines, LEAF).values()) == {"applied"}
