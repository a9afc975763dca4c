"""The little traffic that guard and tests need: timed TCP transfers between hosts, from this process, one thread each.

Not the workload (lab/workload): no shim, no records; a DSCP is set by hand.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric

CHUNK = bytes(65536)
DEADLINE_S = 60.0


def _tos(endpoint: socket.socket, dscp: int) -> None:
    endpoint.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)


class Sink:
    """A server on a host that reads each connection to its end and answers with one byte."""

    def __init__(self, fabric: Fabric, host: str, dscp: int = 0) -> None:
        self.address = fabric.hosts[host]
        with fabric.entered(host):
            self._listener = socket.create_server((self.address, 0), backlog=256)
        _tos(self._listener, dscp)  # SYN-ACKs and ACKs too
        self._listener.settimeout(DEADLINE_S)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._drain, args=(connection,), daemon=True).start()

    @staticmethod
    def _drain(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(DEADLINE_S)
            try:
                while connection.recv(65536):
                    pass
                connection.send(b"!")
            except OSError:
                return

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()


def transfer(fabric: Fabric, host: str, sink: Sink, size_bytes: int, dscp: int = 0) -> float:
    """Seconds from the first write to the sink's answer after the last byte, on a connection made before."""
    with fabric.entered(host):
        connection = socket.socket()
    with connection:
        _tos(connection, dscp)
        connection.settimeout(DEADLINE_S)
        connection.connect((sink.address, sink.port))
        begun = time.perf_counter()
        for offset in range(0, size_bytes, len(CHUNK)):
            connection.sendall(CHUNK[: min(len(CHUNK), size_bytes - offset)])
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        return time.perf_counter() - begun


@contextmanager
def bulk(fabric: Fabric, host: str, sink: Sink, dscp: int = 0, flows: int = 1) -> Iterator[None]:
    """Flows without end meanwhile."""
    connections = []
    stopped = threading.Event()

    def send(connection: socket.socket) -> None:
        while not stopped.is_set():
            try:
                connection.sendall(CHUNK)
            except OSError:
                return

    for _ in range(flows):
        with fabric.entered(host):
            connection = socket.socket()
        _tos(connection, dscp)
        connection.settimeout(DEADLINE_S)
        connection.connect((sink.address, sink.port))
        connections.append(connection)
    threads = [threading.Thread(target=send, args=(connection,), daemon=True) for connection in connections]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # no tail: reset
            connection.close()
        for thread in threads:
            thread.join(DEADLINE_S)
