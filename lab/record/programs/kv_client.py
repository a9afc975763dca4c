"""A memcached client as a web server is one: multi-gets over all servers at once, a set for each miss.

Text protocol. A key has one value for ever, whose size is the table's quantile at the key's own random number, so that
asking again gives the same bytes. Popularity is Zipf's.
"""

import argparse
import socket
import threading
import time

import numpy as np

from lab.sizes import load_table


class Server:
    """One connection to one memcached."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def ask(self, keys: list[str]) -> None:
        """Sends a multi-get."""
        self.socket.sendall(b"get " + " ".join(keys).encode() + b"\r\n")

    def answer(self) -> set[str]:
        """The keys that were there; their values are read and forgotten."""
        found = set()
        while (line := self.file.readline()) != b"END\r\n":
            words = line.split()
            if not words:
                raise ConnectionError("memcached went away")
            found.add(words[1].decode())
            self.file.read(int(words[3]) + 2)
        return found

    def put(self, key: str, value: bytes) -> None:
        """Sets a value."""
        self.socket.sendall(f"set {key} 0 0 {len(value)}\r\n".encode() + value + b"\r\n")
        self.file.readline()


def work(options: argparse.Namespace, number: int, sizes: np.ndarray, until: float) -> None:
    """One thread: Poisson requests, one at a time."""
    random = np.random.default_rng([options.seed, number])
    servers = [Server(address) for address in options.servers.split(",")]
    rate = options.rate / options.threads
    weight = 1 / np.arange(1, options.keys + 1) ** options.zipf
    popular = np.cumsum(weight / weight.sum())
    names = [
        f"{['user:profile', 'feed:item', 'photo:meta', 'sess'][k % 4]}:{k * 2654435761 % 2**32:x}"
        for k in range(options.keys)
    ]
    while time.monotonic() < until:
        time.sleep(random.exponential(1 / rate))
        count = 1 if random.random() < 0.3 else min(1 + int(random.exponential(12)), 64)
        wanted = np.unique(np.searchsorted(popular, random.random(count)))
        of_server = [[int(k) for k in wanted if k % len(servers) == n] for n in range(len(servers))]
        for server, keys in zip(servers, of_server, strict=True):
            if keys:
                server.ask([names[k] for k in keys])
        for server, keys in zip(servers, of_server, strict=True):
            if keys:
                found = server.answer()
                for k in keys:
                    if names[k] not in found or random.random() < 0.02:
                        server.put(names[k], bytes(int(sizes[k])))


def main() -> None:
    """Runs the threads."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--servers", required=True)
    for name, kind in {
        "seconds": float,
        "seed": int,
        "threads": int,
        "keys": int,
        "zipf": float,
        "rate": float,
    }.items():
        parse.add_argument(f"--{name}", type=kind, required=True)
    options = parse.parse_args()
    # The same for every client: sizes belong to the keys.
    sizes = load_table("homa_w1_fbkv_bytes").quantile(np.random.default_rng(0).random(options.keys)).astype(int)
    until = time.monotonic() + options.seconds
    threads = [threading.Thread(target=work, args=(options, n, sizes, until)) for n in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
