"""The control plane on a small fabric: real daemons, real mTLS, intent that becomes queues."""

import sys
import time

import pytest

from lab.control import rest
from lab.control.plane import asics_follow, redis_socket, start_control
from lab.control.rest import RestError
from lab.control.vasic.rows import CONFIG_DB, connect
from lab.fabric import Fabric, FabricError, Topology
from lab.fabric.daemons import start, wait_for

pytestmark = pytest.mark.fabric

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


def test_every_device_is_registered_and_seen(managed):
    with rest.client(managed) as orchestrator:
        assert {row["name"] for row in orchestrator.get("/v1/switches")} == set(managed.topology.switches)
        hosts = orchestrator.get("/v1/hosts")
    assert {row["name"] for row in hosts} == set(managed.hosts)
    for host in managed.hosts:
        assert (managed.run_directory(host) / "records").is_socket()


def test_the_lab_writes_no_row_that_decides_about_queues(prefix_for):
    """Before a rollout: platform rows only, and all traffic in queue 0."""
    with Fabric(
        Topology(leaves=1, spines=1, hosts_per_leaf=1), prefix=prefix_for("rows"), control=start_control
    ) as fabric:
        assert not queue_rows(fabric, "l1")
        if fabric.shared_buffer is not None:
            for port in fabric.topology.switch_ports:
                assert set(fabric.shared_buffer.configured(port.ifindex).queue_of_dscp) == {0}


def test_a_rollout_becomes_queues_on_every_port_of_every_switch(managed):
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
        Fabric(Topology(leaves=1, spines=1, hosts_per_leaf=1), prefix=prefix, control=start_control),
    ):
        pass
    with pytest.raises(FabricError, match="no fabric"):
        Fabric.attach(prefix)


def test_links_only_have_no_orchestrator_to_ask(links):
    with pytest.raises(FabricError, match="without a control plane"):
        rest.client(links)
