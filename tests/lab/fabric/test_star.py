"""The star of experiments about one port: its plan (no root), and that it comes up and goes."""

import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest

from lab.fabric import FabricError, netns
from lab.fabric.commands import Ethtool, Ip, Tc, Write
from lab.fabric.star import HOST_DEVICE, Star, argv_in, build, up
from lab.run.deadline.experiment import star_of
from lab.run.optax.run import star_of as star_of_optax
from lab.run.settings import Deadline, Optax

STAR = Star("t", ("s1", "s2"), 100_000_000, 300)


def lines(star, kind, name, what=Tc):
    return [c.line for c in build(star, "htb") if isinstance(c, what) and c.netns == name and kind in c.line]


def test_the_plan_uses_only_its_own_namespaces_and_touches_nothing_outside_but_them_and_cables():
    plan = build(STAR, "htb")
    assert {command.netns for command in plan} == {"", "t-sw", "t-r", "t-s1", "t-s2"} == {"", *STAR.namespaces}
    outside = [command for command in plan if not command.netns]
    assert all(isinstance(c, Ip) and (c.line.startswith("netns add t-") or " netns t-" in c.line) for c in outside)


def test_only_the_port_to_the_receiver_is_shaped_unless_hosts_are():
    def shaped(star):
        return {(c.netns, c.line.split()[3]) for c in build(star, "htb") if isinstance(c, Tc) and "root" in c.line}

    port = ("t-sw", STAR.port)
    assert shaped(STAR) == {port}
    assert shaped(replace(STAR, hosts_shaped=True)) == {port, *((STAR.netns(host), HOST_DEVICE) for host in STAR.hosts)}


def test_the_port_has_its_rate_and_its_buffer_in_each_queue():
    assert any("rate 100000000bit ceil 100000000bit" in line for line in lines(STAR, "class", "t-sw"))
    queues = lines(STAR, "pfifo", "t-sw")
    assert len(queues) == 8
    assert all(f"dev {STAR.port} " in line and line.endswith("pfifo limit 300") for line in queues)


def test_dscps_are_served_in_their_order_and_all_others_after_them():
    program = replace(STAR, dscps=(47, 43, 39)).program
    place = [program.order[queue] for queue in program.queue_of_dscp]
    assert place[47] < place[43] < place[39]
    assert {place[dscp] for dscp in range(64) if dscp not in (47, 43, 39)} == {max(program.order)}
    assert max(program.order) > place[39]
    assert not lines(STAR, "u32", "t-sw")


@pytest.mark.parametrize("kind", ["htb", "ets"])
def test_every_end_of_a_cable_sends_single_packets_and_receives_on_one_cpu(kind):
    plan = build(STAR, kind)
    ends = {(STAR.netns(host), HOST_DEVICE) for host in STAR.hosts} | {("t-sw", f"to-{host}") for host in STAR.hosts}
    assert {(c.netns, c.line.split()[2]) for c in plan if isinstance(c, Ip) and "gso_max_segs 1" in c.line} == ends
    pinned = [c for c in plan if isinstance(c, Write) and c.path.endswith("rps_cpus")]
    assert {(c.netns, c.path.split("/")[4]) for c in pinned} == ends
    assert {c.value for c in pinned} == {"1"}
    assert {(c.netns, c.arguments.split()[1]) for c in plan if isinstance(c, Ethtool)} == ends


def test_routes_carry_what_tcp_is_to_do():
    def route(star):
        (line,) = lines(star, "route add", "t-s1", Ip)
        return line.partition(" src ")[2].split(" ", 1)[1]

    assert route(STAR) == "congctl cubic quickack 1"
    assert route(replace(STAR, quickack=False, rto_min_ms=20)) == "congctl cubic rto_min 20ms"


def test_the_experiments_ports_are_those_of_their_results():
    deadline, optax = star_of(Deadline()), star_of_optax(Optax(), is_split=False)
    assert (deadline.rate_bps, deadline.queue_packets, deadline.rto_min_ms) == (50_000_000, 300, 20)
    assert (deadline.quickack, deadline.hosts_shaped, len(deadline.senders), len(deadline.dscps)) == (
        False,
        False,
        4,
        7,
    )
    assert (optax.rate_bps, optax.queue_packets, optax.rto_min_ms) == (100_000_000, 300, 10)
    assert (optax.quickack, optax.hosts_shaped, len(optax.senders), len(optax.dscps)) == (True, True, 8, 0)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"senders": ()}, "hosts"),
        ({"senders": ("s1", "s1")}, "hosts"),
        ({"receiver": "sw"}, "hosts"),
        ({"rate_bps": 0}, "0 bit/s"),
        ({"queue_packets": 0}, "0 packets"),
        ({"dscps": (64,)}, "dscps"),
        ({"dscps": (47, 47)}, "dscps"),
        ({"dscps": tuple(range(8))}, "dscps"),
    ],
)
def test_an_impossible_star_is_refused(wrong, word):
    with pytest.raises(FabricError, match=word):
        replace(STAR, **wrong)


@pytest.mark.fabric
def test_a_star_comes_up_and_senders_reach_the_receiver_through_its_port(prefix_for):
    star = replace(STAR, prefix=prefix_for("st"), dscps=(47,), hosts_shaped=True, rto_min_ms=10)
    with up(star):
        with netns.entered(star.netns("r")):
            there = socket.socket(type=socket.SOCK_DGRAM)
        with there:
            there.settimeout(60)
            there.bind((star.address("r"), 7000))
            for host in star.senders:
                with netns.entered(star.netns(host)):
                    here = socket.socket(type=socket.SOCK_DGRAM)
                with here:
                    here.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 47 << 2)
                    here.sendto(host.encode(), there.getsockname())
                    assert there.recvfrom(100)[0] == host.encode()
        left = subprocess.Popen(argv_in(star.netns("s1"), ["sh", "-c", 'sleep "$HOW_LONG"'], {"HOW_LONG": "1000"}))
        shown = subprocess.check_output(
            ["tc", "-n", star.netns("sw"), "-s", "qdisc", "show", "dev", star.port], text=True
        )
    left.wait(120)  # raises unless it ended with its namespace
    (first,) = [part for part in shown.split("qdisc ") if part.startswith("pfifo") and " 2 pkt" in part]
    assert " parent 1:17 " in first or " parent 10:1 " in first
    assert not any(netns.exists(name) for name in star.namespaces)


OWNER = """
import sys, time
from lab.fabric.star import Star, up
with up(Star(sys.argv[1], ("s1",), 1_000_000, 10)):
    print("up", flush=True)
    time.sleep(1000)
"""


@pytest.mark.fabric
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_sigterm_takes_a_star_down_and_what_a_killed_owner_left_goes_at_the_next(prefix_for, number):
    star = Star(prefix_for("sk"), ("s1",), 1_000_000, 10)
    with subprocess.Popen([sys.executable, "-c", OWNER, star.prefix], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "up\n"
        owner.send_signal(number)
        assert owner.wait(120) == (143 if number == signal.SIGTERM else -signal.SIGKILL)
    left = [name for name in star.namespaces if netns.exists(name)]
    assert bool(left) == (number == signal.SIGKILL)
    with up(star):
        assert all(netns.exists(name) for name in star.namespaces)
    assert not any(netns.exists(name) for name in star.namespaces)
