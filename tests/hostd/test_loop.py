"""The whole host loop: an unmodified program under qclimb-run, hostd beside it, a policy that changes under both."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qclimb.policy import Mode
from qclimb.record import ENDED_BY_CLOSE, FlowRecord

from hostlib.run import LIBRARY
from tests.hostd.bench import BIN, Hostd, StandIn, policy
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not LIBRARY.is_file(), reason="libqclimb.so is not built: make -C hostlib")

# An ordinary server: each connection asks for a number of bytes in eight of its own, gets them, and may ask again.
SERVER = """
import socket, struct, threading
def serve(connection):
    with connection:
        while len(asked := connection.recv(8, socket.MSG_WAITALL)) == 8:
            connection.sendall(bytes(struct.unpack("!Q", asked)[0]))
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"""
# A client that is told on stdin how much to ask for, on one kept connection.
CLIENT = """
import socket, struct, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for line in sys.stdin:
    connection.sendall(struct.pack("!Q", int(line)))
    left = int(line)
    while left:
        left -= len(connection.recv(min(left, 65536)))
    print("got", line.strip(), flush=True)
"""


@contextlib.contextmanager
def under_qclimb(run_dir: Path, program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program under the library, its stdin and stdout ours."""
    command = [BIN / "qclimb-run", "--run-dir", run_dir, "--", sys.executable, "-c", program, *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QCLIMB_")}
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def ask(client: subprocess.Popen[str], size_bytes: int) -> None:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(f"{size_bytes}\n")
    assert client.stdout.readline() == f"got {size_bytes}\n"


@contextlib.contextmanager
def server_and_client(run_dir: Path) -> Iterator[tuple[int, subprocess.Popen[str], subprocess.Popen[str]]]:
    with under_qclimb(run_dir, SERVER) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with under_qclimb(run_dir, CLIENT, str(port)) as client:
            yield port, server, client


def nudge(port: int) -> None:
    """Opens and closes a connection: a process hands its last records over at its next call, or when it ends."""
    socket.create_connection(("127.0.0.1", port)).close()


def answers(standin: StandIn, port: int) -> list[FlowRecord]:
    """The flows from the server to its client, in order."""
    found = [record for record in standin.records if record.local_port == port]
    return sorted(found, key=lambda record: record.start_ns)


def test_flows_of_an_unmodified_program_arrive_with_their_sizes(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    sizes = [1, 500, 5_000, 70_000, 300_000, 12]
    with server_and_client(hostd.run_dir) as (port, server, client):
        for size in sizes:
            ask(client, size)
        assert client.stdin is not None
        client.stdin.close()
        assert client.wait(60) == 0
        wait_until(lambda: nudge(port) or len(answers(standin, port)) == len(sizes))
    found = answers(standin, port)
    assert [record.size_bytes for record in found] == sizes
    assert found[-1].flags & ENDED_BY_CLOSE
    for record, before in zip(found[1:], sizes, strict=False):
        assert record.last_size_bytes[0] == before  # a forest's best feature: the flow before on this service
    assert {record.pid for record in found} == {server.pid}
    assert {(record.role, record.peer_addr, record.mode) for record in found} == {(1, "127.0.0.1", Mode.PIAS)}
    assert {record.connection for record in found} != {0}
    asked = [record for record in standin.records if record.peer_port == port]
    assert [(record.size_bytes, record.role) for record in asked] == [(8, 0)] * len(sizes)
    assert hostd.state()["malformed"] == 0
    wait_until(lambda: hostd.state()["shim_policy_generation"] == 7)


def test_a_running_program_follows_a_new_policy(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    with server_and_client(hostd.run_dir) as (port, _, client):
        ask(client, 200_000)
        wait_until(lambda: standin.heartbeats(7))
        # With no threshold below the flow's size it is never demoted.
        standin.policy = policy(8, threshold_bytes=tuple(10**9 + step for step in range(7)))
        wait_until(lambda: standin.heartbeats(8))

        def shows_generation(generation: int) -> bool:
            ask(client, 200_000)  # a look at the policy comes with a flow, at most every 200 ms
            return bool(hostd.state()["shim_policy_generation"] == generation)

        wait_until(lambda: shows_generation(8))
        standin.policy = policy(9, mode=Mode.OBSERVE)
        wait_until(lambda: standin.heartbeats(9))
        wait_until(lambda: shows_generation(9))

        def observed() -> bool:
            ask(client, 200_000)  # a quiet process keeps its last flows until its next call
            return any(record.mode == Mode.OBSERVE for record in answers(standin, port))

        wait_until(observed)
    found = answers(standin, port)
    demotions = [record.demotions for record in found if record.size_bytes == 200_000]
    assert demotions[0] == 5  # 200,000 bytes lie between 1000 * 3^4 and 1000 * 3^5
    assert demotions[-1] == 0
    modes = [record.mode for record in found]
    assert modes == sorted(modes, key=[Mode.PIAS, Mode.OBSERVE].index)  # and never back


def test_a_program_outlives_its_hostd_and_is_recorded_again_by_the_next(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    with server_and_client(hostd.run_dir) as (port, _, client):
        ask(client, 100)
        hostd.kill()
        ask(client, 60_000)  # demoted by the last policy, and nobody listens
        hostd.restart()
        wait_until(lambda: len(standin.posts) and hostd.process.poll() is None)

        def arrives() -> Any:
            ask(client, 777)
            return any(record.size_bytes == 777 for record in answers(standin, port))

        wait_until(arrives)
    assert all(record.mode == Mode.PIAS for record in answers(standin, port))


def test_without_a_policy_a_managed_host_only_observes(hostd: Hostd, standin: StandIn) -> None:
    with server_and_client(hostd.run_dir) as (port, _, client):
        ask(client, 200_000)
        assert client.stdin is not None
        client.stdin.close()
        wait_until(lambda: nudge(port) or answers(standin, port))
    assert [(record.mode, record.demotions) for record in answers(standin, port)] == [(Mode.OBSERVE, 0)]


def test_damage_to_the_policy_file_is_never_an_error_to_the_program(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    with server_and_client(hostd.run_dir) as (port, server, client):
        ask(client, 1000)
        hostd.kill()
        for damage in (b"", b"nonsense", bytes(648), bytes(1 << 20)):
            (hostd.run_dir / "policy").write_bytes(damage)
            (hostd.run_dir / "model").write_bytes(damage)
            ask(client, 200_000)
        (hostd.run_dir / "policy").unlink()
        ask(client, 200_000)
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)) as other:
            other.sendall((5).to_bytes(8, "big"))
            assert other.recv(5, socket.MSG_WAITALL) == bytes(5)
        assert server.poll() is None
        assert client.poll() is None
