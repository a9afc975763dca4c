"""DCTCP at the fabric's hosts: the kernel's own, or by BPF. Real TCP; ratios within one run."""

import socket

import pytest

from lab.fabric import Fabric, FabricError, QueueProgram, Topology, congestion, state
from lab.fabric.queues import Ecn
from lab.fabric.traffic import Sink, bulk, transfer

pytestmark = pytest.mark.fabric
MARK_BYTES = 20 * 1514


@pytest.fixture(scope="module")
def brought(prefix_for):
    """What this fabric registers with the kernel; skips where it takes none."""
    try:
        fabric = Fabric(Topology(hosts_per_leaf=2), prefix=prefix_for("dctcp"), congestion_control="dctcp")
        with fabric:
            if fabric.shared_buffer is None:
                pytest.skip("no BPF on this machine: nobody marks")
            yield fabric
    except FabricError as refused:
        if "no DCTCP" in str(refused):
            pytest.skip(str(refused))
        raise


def congested(fabric, ecn):
    """(peak bytes, marked and dropped packets) of the port that two hosts send bulk to, and a short flow beside it."""
    for port in fabric.topology.switch_ports:
        fabric.program(port, QueueProgram(ecn={0: Ecn(MARK_BYTES, MARK_BYTES)} if ecn else {}))
    (port,) = (port for port in fabric.topology.switch_ports if port.peer_node == "h3")
    before = fabric.shared_buffer.state(port.ifindex).queue[0]
    sink, longest = Sink(fabric, "h3"), 0
    with bulk(fabric, "h1", sink, flows=1), bulk(fabric, "h2", sink, flows=1):
        for _ in range(20):  # beyond slow start's first overshoot
            transfer(fabric, "h4", sink, 30_000)
        for _ in range(60):
            transfer(fabric, "h4", sink, 3_000)
            longest = max(longest, fabric.shared_buffer.state(port.ifindex).queue[0].queued_bytes)
    after = fabric.shared_buffer.state(port.ifindex).queue[0]
    return longest, after.marked_packets - before.marked_packets, after.dropped_packets - before.dropped_packets


def test_with_marks_the_queue_stays_near_the_mark_and_without_it_fills(brought):
    marked_longest, marks, _ = congested(brought, ecn=True)
    longest, no_marks, drops = congested(brought, ecn=False)
    assert marks > 0 and no_marks == 0
    assert drops > 0
    assert marked_longest < 0.75 * longest


def test_hosts_connections_have_it_and_others_of_the_machine_do_not(brought):
    sink = Sink(brought, "h4")
    with brought.entered("h1"):
        connection = socket.create_connection((sink.address, sink.port))
    with connection, socket.socket() as outside:
        used = [of.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for of in (connection, outside)]
    names = [name.rstrip(b"\0").decode() for name in used]
    assert names[0] == brought.record.congestion_control
    assert names[1] != names[0]


def test_it_goes_with_the_fabric_also_when_its_owner_was_killed(brought, prefix_for):
    if not brought.record.registered:
        pytest.skip("this kernel's own DCTCP is used")
    prefix = prefix_for("killed")
    name = congestion.own_name(prefix)
    left = state.State(prefix, Topology(), [], owner_pid=0, owner_start=-1, registered=name)
    left.save()
    congestion.register(name, left.directory)
    assert congestion.has(name)
    assert state.take_down(prefix)
    assert not congestion.has(name)


def test_a_kernel_that_takes_none_is_named_and_leaves_nothing(monkeypatch, prefix_for):
    monkeypatch.setattr(congestion, "has", lambda _: False)
    monkeypatch.setattr(congestion, "own_name", lambda _: "a_name_longer_than_the_kernels")
    prefix = prefix_for("none")
    with (
        pytest.raises(FabricError, match="no DCTCP: this kernel has none"),
        Fabric(Topology(hosts_per_leaf=1), prefix=prefix, congestion_control="dctcp"),
    ):
        pass
    assert state.load(prefix) is None


def test_another_congestion_control_is_refused_by_name(prefix_for):
    with pytest.raises(FabricError, match="congestion control is 'vegas', expected one of cubic, dctcp"):
        Fabric(Topology(), prefix=prefix_for("vegas"), congestion_control="vegas")
