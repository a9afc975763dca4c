"""Whose addresses a record carries, however the application came by its connection, and what accept() tells it."""

import json
import subprocess
from pathlib import Path

import pytest
from qclimb.policy import Mode
from stand import LIBRARY, PYTHON, hostd, policy, put_policy, records_of, wait_until

# A listener and a client in one process. Says both names of the accepted side, and what accept told.
TALK = """
import ctypes, json, socket, struct, sys
family, bind_to, connect_to, room, call = json.loads(sys.argv[1])
family = getattr(socket, family)
libc = ctypes.CDLL(None, use_errno=True)
listener = socket.socket(family); listener.bind((bind_to, 0)); listener.listen()
client = socket.socket(family); client.connect((connect_to, listener.getsockname()[1]))
told = ctypes.create_string_buffer(b"\\xee" * 64, 64)
length = ctypes.c_uint32(room)
out = (None, None) if room < 0 else (told, ctypes.byref(length))
fd = libc.accept(listener.fileno(), *out) if call == "accept" else libc.accept4(listener.fileno(), *out, 0)
server = socket.socket(fileno=fd)
server.sendall(b"x" * 700); client.recv(700); client.sendall(b"y" * 300); server.recv(300)
names = [server.getpeername()[:2], server.getsockname()[:2]]
client.close(); server.close()
print(json.dumps([names, length.value, told.raw.hex()]))
"""


def talk(run_dir, *arguments):
    """What the program said, and the records of the accepted side and of the client."""
    put_policy(run_dir, policy(Mode.PIAS))
    with hostd(run_dir) as got:
        env = {"LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(run_dir)}
        done = subprocess.run(
            [PYTHON, "-c", TALK, json.dumps(arguments)], env=env, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        wait_until(lambda: len(records_of(got)) == 2)
    by_role = {record.role: record for record in records_of(got)}
    return json.loads(done.stdout), by_role[1], by_role[0]


@pytest.mark.parametrize("call", ["accept", "accept4"])
@pytest.mark.parametrize("room", [-1, 0, 4, 16, 64])
def test_the_peer_is_known_whatever_room_accept_was_given(run_dir, call, room):
    (names, length, told), accepted, client = talk(run_dir, "AF_INET", "127.0.0.1", "127.0.0.1", room, call)
    (peer, local), size = names, (16 if room >= 0 else room)
    assert (accepted.peer_addr, accepted.peer_port) == tuple(peer)
    assert (accepted.local_addr, accepted.local_port) == tuple(local)
    assert (client.peer_addr, client.peer_port, client.local_port) == (*local, peer[1])
    assert (accepted.size_bytes, client.size_bytes) == (700, 300)
    # What the application sees is the kernel's: the whole length, and no byte past its room.
    assert length == size % 2**32
    assert set(bytes.fromhex(told)[max(room, 0) :][: 64 - 16]) <= {0xEE}


def test_a_connection_to_no_address_in_particular_has_that_of_its_peer(run_dir):
    (names, _, _), accepted, client = talk(run_dir, "AF_INET", "0.0.0.0", "0.0.0.0", -1, "accept")
    assert (client.peer_addr, client.peer_port) == tuple(names[1])
    assert client.peer_addr == "127.0.0.1"
    assert accepted.local_addr == "127.0.0.1"


def test_ipv6_peers_are_known_too(run_dir):
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("no IPv6 here")
    (names, _, _), accepted, client = talk(run_dir, "AF_INET6", "::1", "::1", 64, "accept")
    assert (accepted.peer_addr, accepted.peer_port) == tuple(names[0]) == (client.local_addr, client.local_port)
    assert client.peer_addr == "::1"
