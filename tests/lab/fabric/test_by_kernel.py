"""A fabric whose hosts' daemons run the kernel mode: programs are scheduled without the library, and nothing stays."""

import json
import sys
from pathlib import Path

import pytest

from lab.control.operator import Control
from lab.control.plane import start_control
from lab.control.rest import client
from lab.fabric import Fabric, FabricError, Topology, cgroups, state
from lab.fabric.daemons import wait_for

pytestmark = pytest.mark.fabric

TINY = Topology(leaves=1, spines=1, hosts_per_leaf=2)
FLOW_BYTES = 200_000
THRESHOLDS = [1000, 3000, 6000, 12_000, 40_000, 100_000, 400_000]
TAKES = (
    "import socket, sys; s = socket.create_server((sys.argv[1], 7000)); print('up', flush=True); c, _ = s.accept()\n"
)
TAKES += "while c.recv(1 << 20): pass"
SENDS = "import os, socket, sys; assert 'LD_PRELOAD' not in os.environ; print(open('/proc/self/cgroup').read())\n"
SENDS += f"c = socket.create_connection((sys.argv[1], 7000)); c.sendall(bytes({FLOW_BYTES})); c.close()"


@pytest.fixture(scope="module")
def prefix(prefix_for):
    return prefix_for("kern")


@pytest.fixture(scope="module")
def fabric(prefix):
    try:
        with Fabric(TINY, prefix=prefix, control=start_control, by="kernel") as made:
            yield made
    except FabricError as error:
        if "kernel mode" in str(error) or "cgroup" in str(error):
            pytest.skip(str(error))
        raise
    assert not any(cgroups.path_of(f"{prefix}-{host}").exists() for host in TINY.hosts)
    assert f"/{prefix}/" not in Path("/proc/mounts").read_text()
    assert not state.directory_of(prefix).exists()


def kernel_records(fabric, host):
    return json.loads((fabric.run_directory(host) / "status.json").read_text())["shipped"]


def test_a_program_is_scheduled_in_its_hosts_cgroup_and_without_the_library(fabric):
    with client(fabric) as rest:
        control = Control(rest)
        made = control.revise({"priorities": 8, "mode": "pias", "thresholds": THRESHOLDS})
        control.roll_out(int(made["id"]))
    address = fabric.hosts["h2"]
    takes = fabric.popen("h2", [sys.executable, "-c", TAKES, address], is_scheduled=True, stdout=-1, text=True)
    assert takes.stdout.readline() == "up\n"
    before = kernel_records(fabric, "h1")
    sends = fabric.popen("h1", [sys.executable, "-c", SENDS, address], is_scheduled=True, stdout=-1, text=True)
    said, _ = sends.communicate(timeout=120)
    assert sends.returncode == 0 and f"/{fabric.prefix}-h1" in said
    wait_for("its flow is recorded", lambda: kernel_records(fabric, "h1") > before, [], 60)
    served = [
        queue
        for port in fabric.topology.switch_ports
        if port.name and fabric.shared_buffer
        for queue, seen in enumerate(fabric.shared_buffer.state(port.ifindex).queue)
        if seen.packets
    ]
    assert not fabric.shared_buffer or len(set(served)) > 3  # 200 KB pass six thresholds


def test_what_was_not_meant_to_be_scheduled_is_left_alone(fabric):
    said = fabric.run("h1", ["cat", "/proc/self/cgroup"], capture_output=True, text=True).stdout
    assert f"/{fabric.prefix}-h1" not in said


def test_a_cgroup_that_is_not_ours_is_left_alone(prefix_for):
    taken = prefix_for("took")
    with cgroups.cgroup(f"{taken}-h1") as there:
        with pytest.raises(FabricError, match=rf"{taken}-h1 is there already"), Fabric(TINY, taken, by="kernel"):
            pass
        assert there.exists()
