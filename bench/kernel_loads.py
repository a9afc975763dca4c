"""The servers of the kernel mode's benchmark, and how each is asked: what it carries a second.

A server is bound to SERVER:PORT; who asks runs in the client's namespace, on the first processor.
"""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .beside import run_in
from .shim_programs import ASK_FIRST_ROUNDS, CONNECTIONS, nginx_argv

NET, SERVER = "198.19.249", "198.19.249.1"
PORT = 8080
SECONDS = 2
NGINX_CONNECTIONS = 8
FILES = {1_000: "1k", 100_000: "100k", 1_000_000: "1m"}


@dataclass(frozen=True)
class Seen:
    """What a load saw."""

    per_s: float
    requests: float  # in all; bytes where that is what is counted


@dataclass(frozen=True)
class Load:
    """A server's command by its folder, and how it is asked in the client's namespace: what it carries a second.

    `name`: as an option names it."""

    name: str
    argv: Callable[[Path], list[str]]
    ask: Callable[[str, Path], Seen]


def output(client: str, *argv: str) -> str:
    """What a load said, on the first processor."""
    command = run_in(client, "taskset", "-c", "0", *argv)
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def nginx(size: int, more: str) -> Load:
    """Files by sendfile."""

    def argv(place: Path) -> list[str]:
        command = nginx_argv(PORT, place, SERVER, more)
        (place / f"nginx{PORT}" / "file").write_bytes(bytes(size))
        return command

    def ask(client: str, _: Path) -> Seen:
        url = f"http://{SERVER}:{PORT}/file"
        said = output(client, "wrk", "-t1", f"-c{NGINX_CONNECTIONS}", f"-d{SECONDS}s", url)
        rate, requests = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
        assert rate and requests
        return Seen(float(rate[1]), int(requests[1]))

    return Load(f"nginx-{FILES[size]}{'-nopush' if more else ''}", argv, ask)


def redis() -> Load:
    """GETs of 100 bytes."""

    requests = 100_000

    def ask(client: str, _: Path) -> Seen:
        argv = ["redis-benchmark", "-h", SERVER, "-p", str(PORT), "-t", "get", "-n", str(requests)]
        said = output(client, *argv, "-c", str(CONNECTIONS), "--csv")
        return Seen(float(said.splitlines()[-1].split(",")[1].strip('"')), requests)

    argv = ["redis-server", "--port", str(PORT), "--bind", SERVER, "--save", "", "--protected-mode", "no"]
    return Load("redis", lambda place: [*argv, "--dir", str(place)], ask)


def memcached() -> Load:
    """Gets of a key that is not there."""

    rounds = 8_000

    def ask(client: str, place: Path) -> Seen:
        answer = len(b"END\r\n")
        argv = [str(place / "ask"), f"{SERVER}:{PORT}", str(CONNECTIONS), str(rounds), r"get k\n", str(answer), "sleep"]
        return Seen(float(output(client, *argv)), (rounds + ASK_FIRST_ROUNDS) * CONNECTIONS)

    argv = ["memcached", "-l", SERVER, "-p", str(PORT), "-t", "1", "-u", "nobody"]
    return Load("memcached", lambda _: argv, ask)


def iperf3() -> Load:
    """One stream from the server, in bytes a second."""

    def ask(client: str, _: Path) -> Seen:
        said = json.loads(output(client, "iperf3", "-J", "-R", "-c", SERVER, "-p", str(PORT), "-t", str(SECONDS)))
        received = said["end"]["sum_received"]
        return Seen(received["bits_per_second"] / 8, received["bytes"])

    return Load("iperf3", lambda _: ["iperf3", "-s", "-p", str(PORT)], ask)


def every_load() -> dict[str, Load]:
    """By name."""
    found = [nginx(size, more) for more in ("", "tcp_nopush on;") for size in FILES]
    return {load.name: load for load in (*found, iperf3(), redis(), memcached())}
