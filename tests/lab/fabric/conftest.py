"""A fabric of links only, for the tests of a module, under a prefix of its own; skipped with the reason otherwise."""

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.control.plane import start_control
from lab.fabric import Fabric, FabricError, Topology, cgroups, state


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
    """With its control plane, one host a leaf, one spine; hosts are scheduled by the kernel mode where there is one.

    Nothing of it stays."""
    if reason := why_not():
        pytest.skip(reason)
    prefix, topology = prefix_for("ctl"), Topology(spines=1, hosts_per_leaf=1)
    with ExitStack() as stack:
        try:
            fabric = stack.enter_context(Fabric(topology, prefix=prefix, control=start_control, by="kernel"))
        except FabricError as error:
            if "kernel mode" not in str(error) and "cgroup" not in str(error):
                raise
            fabric = stack.enter_context(Fabric(topology, prefix=prefix, control=start_control))
        yield fabric
    assert not any(cgroups.path_of(f"{prefix}-{host}").exists() for host in topology.hosts)
    assert f"/{prefix}/" not in Path("/proc/mounts").read_text()
    assert not state.directory_of(prefix).exists()
