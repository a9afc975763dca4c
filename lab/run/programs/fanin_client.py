"""Queries that fan out: a GET to each of several memcached servers at once; a query ends with its last answer.

Run as a program. First lays values on one server and says so, then waits for the file that names the time 0
(CLOCK_MONOTONIC ns), then asks at fixed times, Poisson by seed, whatever became of earlier queries as long as a thread
is free.
Log, a line a query in the order of their times: due_us, late_us, bytes of all answers, microseconds, "ok" or what
went wrong.
"""

import argparse
import threading
import time
from pathlib import Path

import numpy as np

from lab.record.programs.kv_client import Server
from lab.sizes import load_table

SMALL_KEYS = 200
LARGE_BYTES = 20_000
LARGE_SHARE = 0.1
SEED_OF_VALUES = 12


def value_bytes() -> dict[str, int]:
    """Keys with the sizes of their values: Facebook's ETC pool, and one large value."""
    sizes = load_table("homa_w1_fbkv_bytes").quantile(np.random.default_rng(SEED_OF_VALUES).random(SMALL_KEYS))
    return {f"k{n}": max(1, int(size)) for n, size in enumerate(sizes)} | {"large": LARGE_BYTES}


def schedule(seed: int, rate: float, seconds: float, servers: int) -> list[tuple[int, list[str]]]:
    """(due in us, a key for each server) of each query; the same arguments give the same queries."""
    random = np.random.default_rng([seed, 0xFA])
    found, at = [], float(random.exponential(1 / rate))
    while at < seconds:
        large = random.random() < LARGE_SHARE
        keys = ["large"] * servers if large else [f"k{n}" for n in random.integers(0, SMALL_KEYS, servers)]
        found.append((int(at * 1e6), keys))
        at += float(random.exponential(1 / rate))
    return found


class Asker:
    """Threads that take the next query in turn, each with connections of its own."""

    def __init__(self, servers: list[str], queries: list[tuple[int, list[str]]]) -> None:
        self.servers = servers
        self.queries = queries
        self.results = [(due, 0, 0, 0.0, "unfinished") for due, _ in queries]
        self.start_ns = 0
        self._next = 0
        self._lock = threading.Lock()

    def work(self, connections: list[Server]) -> None:
        """One thread."""
        sizes = value_bytes()
        while True:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if number >= len(self.queries):
                return
            due, keys = self.queries[number]
            wait_s = (self.start_ns + due * 1000 - time.monotonic_ns()) / 1e9
            if wait_s > 0:
                time.sleep(wait_s)
            begin = time.monotonic_ns()
            status = "ok"
            for server, key in zip(connections, keys, strict=True):
                server.ask([key])
            for server, key in zip(connections, keys, strict=True):
                if server.answer() != {key}:
                    status = "missing"
            took_us = (time.monotonic_ns() - begin) / 1000
            late_us = max(0, begin - self.start_ns - due * 1000) // 1000
            self.results[number] = (due, late_us, sum(sizes[key] for key in keys), took_us, status)


def main() -> None:
    """Runs the threads."""
    parse = argparse.ArgumentParser(description=__doc__)
    for name in ("servers", "fill", "start", "log"):
        parse.add_argument(f"--{name}", required=True)
    parse.add_argument("--seed", type=int, required=True)
    parse.add_argument("--threads", type=int, default=8)
    parse.add_argument("--rate", type=float, required=True)
    parse.add_argument("--seconds", type=float, required=True)
    options = parse.parse_args()
    fill = Server(options.fill)
    for key, size in value_bytes().items():
        fill.put(key, bytes(size))
    print("ready", flush=True)
    names = options.servers.split(",")
    asker = Asker(names, schedule(options.seed, options.rate, options.seconds, len(names)))
    start = Path(options.start)
    while not start.exists():
        time.sleep(0.05)
    asker.start_ns = int(start.read_text())
    threads = [
        threading.Thread(target=asker.work, args=([Server(name) for name in names],), daemon=True)
        for _ in range(options.threads)
    ]
    for thread in threads:
        thread.start()
    until = asker.start_ns / 1e9 + options.seconds + 30
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    lines = ["\t".join(map(str, result)) for result in asker.results]
    Path(options.log).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
