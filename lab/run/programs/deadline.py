"""`python -m lab.run.programs.deadline send ADDRESS PORT`, or `receive PORT`: ordinary blocking sockets.

The sender reads a trial a line: {"at": ns, "flows": [[id, bytes, deadline_us], ...]}; each flow has a connection of its
own, made before `at` (CLOCK_MONOTONIC, one clock in all network namespaces), and a thread. At `at` it tells the
deadline, where the library is, and writes the flow by one call. When the receiver has read the last byte it answers
with its clock. A line of [[id, start_ns, end_ns, taken], ...] goes out for each trial.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from typing import Any

from hostlib import hint

HEAD = struct.Struct("<Q")
PATIENCE_S = 20.0
LARGEST_BYTES = 1 << 20


def receive(port: int) -> None:
    """Serves for ever, a thread a connection."""
    with socket.create_server(("", port), backlog=64) as server:
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_take, args=(connection,), daemon=True).start()


def _take(connection: socket.socket) -> None:
    room = bytearray(1 << 16)
    with connection:
        connection.settimeout(PATIENCE_S)
        got = 0
        while got < HEAD.size:
            more = connection.recv_into(memoryview(room)[got:])
            if not more:
                return
            got += more
        (size,) = HEAD.unpack_from(room)
        while got < size:
            more = connection.recv_into(room)
            if not more:
                return
            got += more
        connection.sendall(HEAD.pack(time.monotonic_ns()))
        connection.recv_into(room)


def send(address: str, port: int) -> None:
    """Carries out the trials of standard input."""
    data = memoryview(bytes(LARGEST_BYTES))
    print("ready", flush=True)
    for line in sys.stdin:
        trial = json.loads(line)
        done: list[list[Any]] = []
        threads = [
            threading.Thread(target=_flow, args=((address, port), data, trial["at"], *flow, done))
            for flow in trial["flows"]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps(done), flush=True)


def _flow(
    to: tuple[str, int], data: memoryview, at_ns: int, number: int, size: int, deadline_us: int, done: list[list[Any]]
) -> None:
    with socket.create_connection(to, PATIENCE_S) as connection:
        connection.settimeout(None)  # a timeout would make the socket non-blocking
        message = bytearray(data[:size])
        HEAD.pack_into(message, 0, size)
        time.sleep(max(0.0, (at_ns - time.monotonic_ns()) / 1e9))
        start_ns = time.monotonic_ns()
        taken = hint.flow_deadline(connection, deadline_us)
        connection.sendall(message)
        answer = connection.recv(HEAD.size, socket.MSG_WAITALL)
        end_ns = HEAD.unpack(answer)[0] if len(answer) == HEAD.size else 0
        done.append([number, start_ns, end_ns, taken])


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]))
    else:
        send(sys.argv[2], int(sys.argv[3]))
