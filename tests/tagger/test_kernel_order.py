"""In which order the kernel mode takes hold: whoever hears of sockets or packets knows what to do with them by then."""

import json
import subprocess

import pytest
from hosts import Host
from qclimb.hostfile import decode_policy
from qclimb.policy import Mode
from scoped import KernelHost, kernel_mode
from stand import policy

from hostlib.hostd import bpf, kernel
from hostlib.hostd.place import Place
from hostlib.hostd.scope import NO_DEVICE
from hostlib.hostd.tagger import TAGGER_POLICY, Tagger
from lab.fabric.netns import entered

pytestmark = pytest.mark.fabric


def entries(pin):
    """(key, value) of each, as bytes."""
    said = subprocess.check_output(["bpftool", "-j", "map", "dump", "pinned", str(pin)], text=True)
    return [tuple(bytes(int(byte, 16) for byte in entry[of]) for of in ("key", "value")) for entry in json.loads(said)]


@pytest.fixture
def joins(pair, monkeypatch):
    """Of each program that is put at a cgroup: its name, the mode of the policy that it finds, and the ports."""
    seen = []
    join = bpf.join_cgroup

    def see(program, cgroup, link):
        [(_, told)] = entries(program.parents[1] / "host_policy")
        mode = decode_policy(told).mode if any(told) else None
        ports = [int.from_bytes(key, "little") for key, _ in entries(program.parents[1] / "ports")]
        seen.append((program.name, mode, ports))
        join(program, cgroup, link)

    monkeypatch.setattr(bpf, "join_cgroup", see)
    return seen


@pytest.mark.parametrize(("device", "program"), [("e0", "scope"), (NO_DEVICE, "scope_marks")])
def test_the_first_socket_finds_policy_and_ports(pair, joins, device, program):
    with kernel_mode(pair[0], policy(), devices=(device,), ports=(80,)):
        assert joins == [(program, Mode.PIAS, [80])]


def by(host: Host, a: KernelHost, device: str) -> KernelHost:
    """As the next hostd has it."""
    a.kernel.close()
    tagger = Tagger(Place(host.run_dir), (device,), cgroups=(a.cgroup,))
    return KernelHost(host, a.cgroup, tagger, kernel.KernelMode(Place(host.run_dir), a.kernel._scope, tagger))


def test_sockets_mark_by_a_policy_in_which_flows_sink_from_their_first_packet_to_their_last(pair, joins):
    wanted = policy(Mode.QCLIMB)
    with kernel_mode(pair[0], wanted) as a:
        for device in (NO_DEVICE, "e0"):
            a = by(pair[0], a, device)
            a.follow(wanted)
            assert not a.kernel.problem
        [(_, told)] = entries(pair[0].run_dir / "bpf" / "host_policy")
        assert decode_policy(told).mode is Mode.QCLIMB
        assert [(program, mode) for program, mode, _ in joins] == [
            ("scope", Mode.QCLIMB),
            ("scope_marks", Mode.PIAS),
            ("scope", Mode.PIAS),
        ]
        a.kernel.close()


def test_a_devices_first_packet_finds_the_policy(pair, monkeypatch):
    seen = []
    join = bpf.join_device

    def see(program, index, direction, link):
        [(_, told)] = entries(program.parents[1] / "policy")
        seen.append(TAGGER_POLICY.unpack(told)["priorities"])
        join(program, index, direction, link)

    monkeypatch.setattr(bpf, "join_device", see)
    with entered(pair[0].netns):
        Tagger(Place(pair[0].run_dir), ("e0",)).follow(policy())
    assert seen and set(seen) == {policy().priorities}
