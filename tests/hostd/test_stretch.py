"""What hostd measures of TCP's connections, between two network namespaces' worth of addresses on loopback."""

import socket
from collections.abc import Iterator

import pytest

from hostlib.hostd import stretch


@pytest.fixture
def busy(monkeypatch) -> Iterator[socket.socket]:
    """A connection that just sent; loopback counts as another host here."""
    monkeypatch.setattr(stretch, "_is_here", lambda peer: False)
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as client,
        door.accept()[0] as server,
    ):
        for _ in range(20):
            client.sendall(b"x" * 1000)
            server.recv(2000)
            server.sendall(b"y")
            client.recv(1)
        yield client


def own(later: tuple[int, ...] = ()) -> int:
    found = stretch.look(later)
    return 0 if found is None else found.connections


def test_a_connection_that_sends_is_measured_but_not_one_that_is_marked_for_later(busy):
    found = stretch.look(())
    assert found is not None and found.connections >= 2 and found.mean >= 1
    busy.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 10 << 2)
    assert own((10,)) < own(())
    assert own((11,)) == own(())


def test_connections_of_this_host_with_itself_are_left_out():
    assert stretch._is_here(socket.inet_aton("127.0.0.1"))
    assert stretch._is_here(socket.inet_pton(socket.AF_INET6, "::ffff:127.0.0.1"))
    assert not stretch._is_here(socket.inet_aton("192.0.2.1"))
