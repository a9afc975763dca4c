"""A fabric of links only, for the tests of a module, under a prefix of its own; skipped with the reason otherwise."""

import os
import shutil

import pytest

from lab.control.plane import start_control
from lab.fabric import Fabric, Topology


def why_not() -> str:
    if os.geteuid() != 0:
        return "network namespaces need root"
    missing = [tool for tool in ("ip", "tc", "ethtool", "redis-server") if shutil.which(tool) is None]
    return f"missing: {', '.join(missing)}" if missing else ""


@pytest.fixture(autouse=True)
def fabric_needs_root(request):
    if request.node.get_closest_marker("fabric") and (reason := why_not()):
        pytest.skip(reason)


@pytest.fixture(scope="session")
def prefix_for():
    """Prefixes that no other run has."""
    return lambda name: f"t{os.getpid()}{name}"


@pytest.fixture(scope="module")
def links(prefix_for):
    if reason := why_not():
        pytest.skip(reason)
    with Fabric(Topology(hosts_per_leaf=2), prefix=prefix_for("links")) as fabric:
        yield fabric


@pytest.fixture(scope="module")
def managed(prefix_for):
    """With its control plane, one host a leaf."""
    if reason := why_not():
        pytest.skip(reason)
    with Fabric(Topology(hosts_per_leaf=1), prefix=prefix_for("ctl"), control=start_control) as fabric:
        yield fabric
