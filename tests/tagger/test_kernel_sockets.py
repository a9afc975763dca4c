"""The kernel mode where no device has the tagger: each packet's DSCP is the socket's own."""

import errno
import json
import subprocess

import pytest
import stand
from hosts import PORTS
from qclimb.policy import Mode
from scoped import PROGRAMS, kernel_mode, send
from stand import B6, DSCP, B, policy
from test_kernel import SIZE, answers_by_sendfile, static_c  # noqa: F401
from test_kernel import flows as rules
from test_marks import at_packets, demoted, edges, first_sent, without_offload

from hostlib.hostd import bpf, devices
from hostlib.hostd.kernel import remove
from hostlib.hostd.place import Place
from hostlib.hostd.scope import NO_DEVICE
from hostlib.hostd.tagger import Tagger
from lab.fabric.netns import entered
from tests.tiers import quick_first

pytestmark = pytest.mark.fabric
OURS = ([DSCP[0] << 2, 6], [DSCP[-1] << 2, 6 - (len(DSCP) - 1)])
"""What a socket has after a large flow, TOS and SO_PRIORITY: its last packet is data, or an ACK."""
TAKES = """
import socket
it = socket.create_server(("::", {port}), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
it, got = it.accept()[0], 0
while found := it.recv(1 << 20):
    got += len(found)
    if got % {size} == 0:
        it.send(bytes(1))
"""


class Quiet:
    """A program of `a` that keeps its connection, and says what its socket has."""

    def __init__(self, a, b, to=B, *, size=SIZE, own=()):
        self.size, self.port = size, next(PORTS)
        program = TAKES.format(port=self.port, size=size)
        self.sink = b.start([stand.PYTHON, "-c", program], LD_PRELOAD="")
        assert self.sink.stdout.readline() == "ready\n"
        argv = [stand.PYTHON, PROGRAMS / "quiet.py", to, str(self.port), *own]
        self.program = a.start(*argv, stdin=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.program.communicate()
        assert self.program.returncode == 0
        self.sink.wait(60)

    def says(self, size=0, *tos):
        self.program.stdin.write(" ".join(map(str, (size, *tos))) + "\n")
        self.program.stdin.flush()
        return json.loads(self.program.stdout.readline())

    def sends(self, *tos):
        return self.says(self.size, *tos)


@pytest.fixture
def kernel(pair):
    with kernel_mode(pair[0], policy(), devices=(NO_DEVICE,)) as made:
        yield made, pair[1]


@pytest.mark.parametrize("to", [B, B6, f"::ffff:{B}"])
@pytest.mark.parametrize("size", quick_first([SIZE, 1_024, 10_485_760], 1))
def test_a_static_program_is_demoted_at_the_packet_of_each_threshold(kernel, static_c, size, to):  # noqa: F811
    a, b = kernel
    seen = send(a, b, static_c, size, to=to)
    assert seen.bytes == size
    assert edges(seen) == at_packets(demoted(size), seen)
    assert seen.syn_dscp == DSCP[0]
    assert seen.pure_ack_dscps <= {DSCP[0]}
    assert "marks by sockets, qclimb as pias (at no device: none is asked for)" in a.kernel.status


def test_flows_of_a_kept_connection_begin_first_again(kernel, static_c):  # noqa: F811
    a, b = kernel
    seen = send(a, b, static_c, 60_000, flows=3)
    assert edges(seen) == at_packets(rules([60_000] * 3), seen)
    assert [record.size_bytes for record in a.told(3)] == [60_000] * 3


def test_nobody_outside_the_cgroup_is_touched(kernel, static_c):  # noqa: F811
    a, b = kernel
    seen = send(a, b, static_c, SIZE, is_in=False)
    assert edges(seen) == [(0, 0)]
    assert (seen.syn_dscp, seen.pure_ack_dscps) == (0, {0})


def test_nothing_climbs(pair, static_c):  # noqa: F811
    with kernel_mode(pair[0], policy(Mode.QCLIMB), devices=(NO_DEVICE,)) as a:
        seen = send(a, pair[1], static_c, SIZE)
        assert edges(seen) == at_packets(demoted(SIZE), seen)


@pytest.mark.parametrize("to", [B, B6])
@pytest.mark.parametrize("own", [(), ("own",)])
def test_sockets_go_back_to_what_the_application_had_as_the_mode_goes(kernel, to, own):
    """Quiet ones, too. One whose program chose a DSCP meanwhile keeps it, and so does its next flow."""
    a, b = kernel
    so_priority = 2 if own else 0
    with Quiet(a, b, to, own=own) as served, Quiet(a, b, to) as chooses:
        assert served.sends() in ([[tos, so_priority] for tos, _ in OURS] if own else OURS)
        assert chooses.sends() in OURS
        with b.bench.capture("b") as pcap:
            assert chooses.sends(0x28)[0] == 0x28
        with entered(a.host.netns):
            remove(a.host.run_dir / "bpf")
        assert served.says() == [0, so_priority]
        assert chooses.says()[0] == 0x28
    assert {s.dscp for s in stand.segments(pcap) if s.payload and s.dport == chooses.port} == {10}


@pytest.mark.parametrize("why", ["no clsact", "there is no Ethernet device"])
def test_it_is_chosen_where_no_device_can_be_had_and_left_where_one_can(pair, static_c, monkeypatch, why):  # noqa: F811
    a, b = pair
    if why == "no clsact":
        monkeypatch.setattr(bpf, "join_device", refuse(bpf.BpfError("no tcx", errno.EINVAL)))
        monkeypatch.setattr(devices, "_by_clsact", refuse(devices.DeviceError(why)))
    else:
        monkeypatch.setattr(devices, "ethernet_devices", tuple)
    with kernel_mode(a, policy(), devices=()) as made:
        assert f"marks by sockets, qclimb as pias (at no device: {why})" in made.kernel.status
        assert made.tagger.status == f"at no device: {why}"
        with Quiet(made, b) as kept:
            assert kept.sends() in OURS
            monkeypatch.undo()
            made.tagger._next_look = 0.0
            made.follow(policy())
            assert "marks by sockets" not in made.kernel.status
            assert "at no device" not in made.tagger.status
            seen = send(made, b, static_c, SIZE)
            assert edges(seen) == at_packets(demoted(SIZE), seen)
            assert kept.sends() == [0, 0]


def refuse(error):
    def act(*_):
        raise error

    return act


def test_a_server_answers_by_sendfile(kernel, tmp_path):
    sizes = (1_024, 100_000, 1_000_000)
    seen, records = answers_by_sendfile(*kernel, tmp_path, sizes)
    assert edges(seen) == at_packets(rules([record.size_bytes for record in records]), seen)


@pytest.mark.parametrize("to", [B, B6])
def test_ecn_bits_and_checksums_stay_right(kernel, static_c, to):  # noqa: F811
    a, b = kernel
    for host in (a.host, b):
        without_offload(host)
    send(a, b, static_c, SIZE, to=to)
    pcap = max(b.bench.path.glob("*.pcap"), key=lambda path: path.stat().st_mtime)
    assert {segment.ecn for segment in first_sent(stand.segments(pcap))} <= {2, 3}
    for host in (a.host, b):
        assert host.counter("TcpInCsumErrors") == host.counter("IpExtInCsumErrors") == 0


def test_a_device_that_is_missing_takes_the_tagger_from_no_other_over_a_new_hostd(pair):
    with kernel_mode(pair[0], policy()) as a:
        links = sorted((a.host.run_dir / "bpf" / "links").glob("[0-9]*"))
        if not links:
            pytest.skip("no tcx here: nothing is held by links")
        new = Tagger(Place(a.host.run_dir), ("e0", "e9"), cgroups=(a.cgroup,))
        with entered(a.host.netns):
            new.follow(policy())
        assert "e9" in new.problem
        assert sorted((a.host.run_dir / "bpf" / "links").glob("[0-9]*")) == links
