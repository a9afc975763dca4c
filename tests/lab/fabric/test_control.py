"""The control plane on a small fabric: real daemons, real mTLS, intent that becomes queues, hosts in kernel mode."""

import json
import sys
import time

import pytest

from lab.control import rest
from lab.control.operator import Control
from lab.control.plane import asics_follow, redis_socket, start_control
from lab.control.rest import RestError
from lab.control.vasic.rows import CONFIG_DB, connect
from lab.fabric import Fabric, FabricError, Topology, cgroups
from lab.fabric.daemons import start, wait_for

pytestmark = pytest.mark.fabric

TINY = Topology(leaves=1, spines=1, hosts_per_leaf=1)
FLOW_BYTES = 200_000
TAKES = (
    "import socket, sys; s = socket.create_server((sys.argv[1], 7000)); print('up', flush=True); c, _ = s.accept()\n"
)
TAKES += "while c.recv(1 << 20): pass"
SENDS = "import os, socket, sys; assert 'LD_PRELOAD' not in os.environ; print(open('/proc/self/cgroup').read())\n"
SENDS += f"c = socket.create_connection((sys.argv[1], 7000)); c.sendall(bytes({FLOW_BYTES})); c.close()"
THRESHOLDS = [1000, 3000, 6000, 12_000, 40_000, 100_000, 400_000]
TABLES_OF_SWITCHD = ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "PORT_QOS_MAP", "SCHEDULER", "QUEUE", "WRED_PROFILE")


def rolled_out(orchestrator, **revision):
    made = orchestrator.post("/v1/revisions", revision)
    rollout = orchestrator.post("/v1/rollouts", {"revision": made["id"]})
    deadline = time.monotonic() + 200
    while (now := orchestrator.get(f"/v1/rollouts/{rollout['id']}"))["phase"] == "running":
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    return now


def queue_rows(fabric, switch):
    database = connect(str(redis_socket(fabric, switch)), CONFIG_DB)
    return [key for key in database.keys("*") if key.partition("|")[0] in TABLES_OF_SWITCHD]


@pytest.fixture(scope="module")
def before_rollouts(managed):
    """Rows of all switches that decide about queues, and the queues that any DSCP has on any port."""
    rows = [row for switch in managed.topology.switches for row in queue_rows(managed, switch)]
    ports = managed.topology.switch_ports if managed.shared_buffer is not None else ()
    return rows, {q for port in ports for q in managed.shared_buffer.configured(port.ifindex).queue_of_dscp}


def test_every_device_is_registered_and_seen(managed):
    with rest.client(managed) as orchestrator:
        assert {row["name"] for row in orchestrator.get("/v1/switches")} == set(managed.topology.switches)
        hosts = orchestrator.get("/v1/hosts")
    assert {row["name"] for row in hosts} == set(managed.hosts)
    for host in managed.hosts:
        assert (managed.run_directory(host) / "records").is_socket()


def test_the_lab_writes_no_row_that_decides_about_queues(before_rollouts):
    """Before a rollout: platform rows only, and all traffic in queue 0."""
    rows, queues = before_rollouts
    assert not rows and queues <= {0}


def test_a_rollout_becomes_queues_on_every_port_of_every_switch(managed, before_rollouts):
    with rest.client(managed) as orchestrator:
        done = rolled_out(orchestrator, priorities=8, mode="pias", thresholds=THRESHOLDS)
    assert done["phase"] == "done", done
    wait_for("the ASICs follow", lambda: asics_follow(managed), [], 120)
    if managed.shared_buffer is None:
        pytest.skip("no BPF on this machine")
    for port in managed.topology.switch_ports:
        queue_of = managed.shared_buffer.configured(port.ifindex).queue_of_dscp
        assert [queue_of[47 - 4 * priority] for priority in range(8)] == [7, 6, 5, 4, 3, 2, 1, 0]
        assert queue_of[0] == 0


def test_a_refused_request_carries_the_reason(managed):
    with rest.client(managed) as orchestrator, pytest.raises(RestError, match="prioritys") as refused:
        orchestrator.post("/v1/revisions", {"prioritys": 8})
    assert refused.value.status == 422


def test_a_daemon_that_dies_at_once_is_named_with_its_last_words(managed):
    dying = start(managed, "l1", "dying", [sys.executable, "-c", "import sys; sys.exit('no such colour')"])
    with pytest.raises(FabricError, match=r"dying ended with status 1 before it serves.*\n.*no such colour"):
        wait_for("it serves", lambda: False, [dying], 120)


def test_what_does_not_come_in_time_is_named(managed):
    with pytest.raises(FabricError, match="the sun rises: not within 0 s"):
        wait_for("the sun rises", lambda: False, [], 0.1)


def test_a_control_plane_that_can_not_start_leaves_nothing(prefix_for, monkeypatch):
    monkeypatch.setattr("lab.control.plane.command", lambda name: "/bin/false")
    prefix = prefix_for("bad")
    with (
        pytest.raises(FabricError, match="ended with status 1"),
        Fabric(TINY, prefix=prefix, control=start_control),
    ):
        pass
    with pytest.raises(FabricError, match="no fabric"):
        Fabric.attach(prefix)


def test_links_only_have_no_orchestrator_to_ask(prefix_for):
    with (
        Fabric(TINY, prefix=prefix_for("only")) as links,
        pytest.raises(FabricError, match="without a control plane"),
    ):
        rest.client(links)


@pytest.fixture
def by_kernel(managed):
    if not managed.record.cgroups:
        pytest.skip("no kernel mode on this machine")
    return managed


def kernel_records(fabric, host):
    return json.loads((fabric.run_directory(host) / "status.json").read_text())["shipped"]


def test_a_program_is_scheduled_in_its_hosts_cgroup_and_without_the_library(by_kernel, before_rollouts):
    fabric = by_kernel
    with rest.client(fabric) as orchestrator:
        control = Control(orchestrator)
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


def test_what_was_not_meant_to_be_scheduled_is_left_alone(by_kernel):
    said = by_kernel.run("h1", ["cat", "/proc/self/cgroup"], capture_output=True, text=True).stdout
    assert f"/{by_kernel.prefix}-h1" not in said


def test_a_cgroup_that_is_not_ours_is_left_alone(prefix_for):
    taken = prefix_for("took")
    with cgroups.cgroup(f"{taken}-h1") as there:
        with pytest.raises(FabricError, match=rf"{taken}-h1 is there already"), Fabric(TINY, taken, by="kernel"):
            pass
        assert there.exists()
