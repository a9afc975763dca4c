"""The programs of a cell, ordinary ones that know nothing of qclimb: `traffic.py ROLE JSON`. Each ends by JSON lines.

A flow is a connection of its own: a header of 16 bytes (size, clock at the first write), the bytes, and as the answer
the receiver's clock at the last byte and how many packets came out of order. All hosts are one machine, so that
CLOCK_MONOTONIC is one clock.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

PORT = 7100
HEADER = struct.Struct("<QQ")
ANSWER = struct.Struct("<QI")
INFO_BYTES = 256
#: Offsets in struct tcp_info of include/uapi/linux/tcp.h.
TOTAL_RETRANS, SEGS_OUT, DSACK_DUPS, RCV_OOOPACK = 100, 136, 216, 224


def serve(address: str) -> None:
    """Receives flows until it is killed."""

    def one(connection: socket.socket) -> None:
        with connection:
            got = connection.recv(HEADER.size, socket.MSG_WAITALL)
            if len(got) < HEADER.size:
                return
            left = HEADER.unpack(got)[0] - HEADER.size
            while left > 0:
                data = connection.recv(min(left, 1 << 18))
                if not data:
                    return
                left -= len(data)
            ended_ns = time.monotonic_ns()
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
            out_of_order = struct.unpack_from("<I", info, RCV_OOOPACK)[0]
            connection.sendall(ANSWER.pack(ended_ns, out_of_order))
            connection.recv(1)

    with socket.create_server((address, PORT), backlog=512) as server:
        print("ready", flush=True)
        while True:
            threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()


def flow(address: str, size: int, dscp: int | None = None, climb: list[list[int]] | None = None) -> dict[str, float]:
    """One flow: its FCT, and what TCP says of it. `climb`: [from byte, DSCP] that the program sets at its writes."""
    with socket.socket() as sock:
        if dscp is not None:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
        sock.connect((address, PORT))
        started = time.monotonic_ns()
        data = HEADER.pack(size, started) + bytes(size - HEADER.size)
        if climb is None:
            sock.sendall(data)
        else:
            for (first, at_dscp), (end, _) in zip(climb, [*climb[1:], [size, 0]], strict=True):
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, at_dscp << 2)
                sock.sendall(data[first:end])
        ended, out_of_order = ANSWER.unpack(sock.recv(ANSWER.size, socket.MSG_WAITALL))
        info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    return {
        "fct_ms": (ended - started) / 1e6,
        "sent_again": struct.unpack_from("<I", info, TOTAL_RETRANS)[0],
        "segments": struct.unpack_from("<I", info, SEGS_OUT)[0],
        "spurious": struct.unpack_from("<I", info, DSACK_DUPS)[0],
        "out_of_order": out_of_order,
    }


def foreground(address: str, size: int, flows: int, gap_ms: float, seed: int, climb: list[list[int]] | None) -> None:
    """Flows one after another, with exponential pauses between."""
    chance = random.Random(seed)
    for _ in range(flows):
        time.sleep(chance.expovariate(1000 / gap_ms))
        print(json.dumps(flow(address, size, climb=climb)), flush=True)


def background(address: str, seed: int, streams: list[dict[str, float]]) -> None:
    """Poisson arrivals of flows at a fixed DSCP each, until a line comes on stdin; an open loop."""
    stop = threading.Event()
    done: list[dict[str, float]] = []

    def one(stream: dict[str, float]) -> None:
        try:
            done.append({"dscp": stream["dscp"], **flow(address, int(stream["size"]), int(stream["dscp"]))})
        except (OSError, struct.error):
            done.append({"dscp": stream["dscp"], "failed": 1})

    def arrive(number: int, stream: dict[str, float], pool: ThreadPoolExecutor) -> None:
        chance = random.Random(seed * 100 + number)
        at = time.monotonic()
        while not stop.is_set():
            at += chance.expovariate(stream["per_s"])
            time.sleep(max(0.0, at - time.monotonic()))
            pool.submit(one, stream)

    with ThreadPoolExecutor(256) as pool:
        arrivals = [threading.Thread(target=arrive, args=(n, s, pool)) for n, s in enumerate(streams)]
        for thread in arrivals:
            thread.start()
        print("ready", flush=True)
        sys.stdin.readline()
        stop.set()
        for thread in arrivals:
            thread.join()
    print(json.dumps(done), flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
