"""Which of a host's connections are measured, and what the kernel's socket table says of them."""

import math
import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from qclimb.policy import Mode, Policy
from qclimb.stretch import CONNECTIONS_MOST as TAKEN_MOST

from hostlib.hostd.stretch import (
    CONNECTIONS_MOST,
    Connection,
    Fabric,
    TaggerMaps,
    dump_connections,
    measure_stretch,
    stretch_of,
)

POLICY = Policy(7, Mode.PIAS, (10_000, 100_000), (47, 43, 39), 0)
SMALL = Connection(ip_address("198.18.0.1"), ip_address("198.18.0.2"), 80, dscp=47, ratio=2.0)
PINNED = replace(POLICY, dscp=(47, 43, 39), spines=2, unpinned_dscp=51)


def count(connection: Connection, policy: Policy | None = POLICY, fabric: Fabric = Fabric()) -> int:  # noqa: B008
    found = stretch_of([connection], policy, fabric)
    return 0 if found is None else found.connections


@pytest.mark.parametrize(
    ("connection", "policy", "counted"),
    [
        (SMALL, POLICY, True),
        (replace(SMALL, dscp=43), POLICY, False),  # goes later
        (replace(SMALL, dscp=0), POLICY, False),  # nothing marks it: hostd's own, a backup, ssh
        (replace(SMALL, dscp=18), POLICY, False),  # its application chose a DSCP
        (replace(SMALL, dscp=0, priority=0), POLICY, True),  # the tagger marks its packets
        (replace(SMALL, dscp=0, priority=2), POLICY, False),
        (replace(SMALL, dscp=18, priority=0), POLICY, False),
        (replace(SMALL, ratio=None), POLICY, False),
        (SMALL, None, False),
        (SMALL, replace(POLICY, mode=Mode.OBSERVE), False),
        (SMALL, replace(POLICY, mode=Mode.OFF), False),
        (replace(SMALL, dscp=51), PINNED, True),  # at rest
        (replace(SMALL, dscp=0), replace(POLICY, dscp=(0, 43, 39)), False),  # DSCP 0 is everybody's
        (replace(SMALL, peer=ip_address("127.0.0.1")), POLICY, False),
        (replace(SMALL, peer=ip_address("::1")), POLICY, False),
        (replace(SMALL, peer=SMALL.local), POLICY, False),  # this host by its own address
    ],
)
def test_a_connection_counts_where_the_policy_marks_it_and_it_goes_first(connection, policy, counted):
    assert count(connection, policy) == counted


@pytest.mark.parametrize("dscp", [47, 0])
def test_the_orchestrators_and_other_networks_are_left_out(dscp):
    marked = replace(SMALL, dscp=dscp, priority=0)
    assert count(marked, fabric=Fabric((), (SMALL.peer, 80))) == 0
    assert count(marked, fabric=Fabric((), (SMALL.peer, 443))) == 1
    assert count(marked, fabric=Fabric([ip_network("198.18.0.0/15"), ip_network("fd00::/8")])) == 1
    assert count(marked, fabric=Fabric([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])) == 0


def test_a_busy_management_network_and_an_idle_fabric_measure_nothing():
    busy = [replace(SMALL, peer=ip_address(f"192.0.2.{n}"), dscp=0, ratio=1000.0) for n in range(250)]
    assert stretch_of(busy, POLICY, Fabric()) is None
    found = stretch_of([*busy, SMALL], POLICY, Fabric())
    assert found is not None and (found.connections, found.mean) == (1, pytest.approx(2))


def test_what_is_measured_is_what_the_contract_takes():
    found = stretch_of((replace(SMALL, ratio=4e9) for _ in range(3 * CONNECTIONS_MOST)), POLICY, Fabric())
    assert found is not None and found.connections == CONNECTIONS_MOST <= TAKEN_MOST
    assert math.isclose(found.mean, 1e6)


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["ipv4", "v4-mapped"])
def busy(request) -> Iterator[socket.socket]:
    """A connection over loopback that just sent."""
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.socket(request.param) as client,
    ):
        host, port = door.getsockname()
        client.connect((host, port) if request.param == socket.AF_INET else (f"::ffff:{host}", port))
        with door.accept()[0] as server:
            for _ in range(20):
                client.sendall(b"x" * 1000)
                server.recv(2000)
                server.sendall(b"y")
                client.recv(1)
            yield client


def test_the_kernel_tells_of_a_connections_ends_mark_and_round_trips(busy):
    local, peer = busy.getsockname()[1], busy.getpeername()[1]
    busy.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 47 << 2)

    def mine(connection: Connection) -> bool:
        return connection.peer_port == peer and connection.dscp == 47

    (found,) = filter(mine, dump_connections(TaggerMaps()))
    assert (found.local, found.peer) == (ip_address("127.0.0.1"), ip_address("127.0.0.1"))
    assert found.ratio is not None and found.ratio >= 1 and found.priority is None
    assert local in [each.peer_port for each in dump_connections(TaggerMaps())]  # the other end
    assert measure_stretch(replace(POLICY, mode=Mode.OFF), Fabric(), Path("/nonexistent")) is None


def test_a_priority_is_the_one_that_the_tagger_sent_at_last():
    maps = TaggerMaps({3: 30}, {4: 40})

    def order(changes: int, *priorities: int) -> bytes:
        numbers = [0] * 8 + [*priorities, *[0] * (8 - len(priorities))] + [changes]
        return b"".join(number.to_bytes(8, "little") for number in numbers) + bytes(200)

    assert maps.priority({}) is None
    assert maps.priority({30: b""}) == 0
    assert maps.priority({30: b"", 40: order(0)}) == 0
    assert maps.priority({30: b"", 40: order(2, 1, 2)}) == 2
    assert maps.priority({30: b"", 40: order(9, 3, 1, 2)}) == 3  # the ninth is in the first one's place
