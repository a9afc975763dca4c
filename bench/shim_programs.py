"""What real servers carry under libqclimb.so: requests a second beside the same server bare, interleaved.

Server on one processor, bare load on another where there are two. Each server stays up for the whole benchmark; only
one is asked at a time. Goal: at least 0.98 of bare. CPU: what the scheduler gave the server, a request; it is less in
the hands of whatever else the machine does. `split`: the server keeps the boundary itself, without the library, as the
least that it costs (shim_split.c). A program that is not installed is said and skipped.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from beside import HOSTLIB, SPLIT, cpu_ns_of, environments, in_turns, last_cpu, row_per_s, split_environment  # noqa: E402

MODES = (Mode.PIAS, Mode.QCLIMB)
GOAL = ">= 0.98"
CONNECTIONS = 20
VALUE = 100

NGINX = """
worker_processes 1; daemon off; pid {place}/pid; error_log /dev/null;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile on;
  client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u;
  scgi_temp_path {place}/s;
  server {{ listen {address}:{port}; root {place}; }}
}}
"""


@dataclass(frozen=True)
class Seen:
    """What one load saw."""

    per_s: float
    requests: int


@dataclass(frozen=True)
class Load:
    """How a server is asked, by its port, and how often: as many turns as a quarter of an hour has room for."""

    ask: Callable[[int], Seen]
    repeats: int
    modes: Sequence[str] = MODES


@dataclass(frozen=True)
class Server:
    """Programs that it needs, its command by port and folder, its loads by name."""

    needs: tuple[str, ...]
    argv: Callable[[int, Path], list[str]]
    loads: dict[str, Load]


def free_port() -> int:
    """One that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    """Until somebody listens there."""
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def said(argv: list[str]) -> str:
    """The output of a load, on the first processor."""
    return subprocess.run(["taskset", "-c", "0", *argv], check=True, capture_output=True, text=True, timeout=60).stdout


def redis_argv(port: int, place: Path) -> list[str]:
    """A server that keeps nothing."""
    return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)]


def redis_load(port: int) -> Seen:
    """GETs of 100 bytes."""
    requests = 20000
    argv = ["redis-benchmark", "-p", str(port), "-t", "get", "-n", str(requests), "-c", str(CONNECTIONS), "--csv"]
    return Seen(float(said(argv).splitlines()[-1].split(",")[1].strip('"')), requests)


def memcached_argv(port: int, place: Path) -> list[str]:
    """One thread: one processor."""
    del place
    return ["memcached", "-l", "127.0.0.1", "-p", str(port), "-t", "1", "-u", "nobody"]


def ask(place: Path, port: int, request: str, answer_bytes: int, rounds: int = 1000) -> Seen:
    """By the load of ask.c."""
    argv = [str(place / "ask"), str(port), str(CONNECTIONS), str(rounds), request, str(answer_bytes)]
    return Seen(float(said(argv)), rounds * CONNECTIONS)


def nginx_argv(port: int, place: Path, address: str = "127.0.0.1") -> list[str]:
    """Files of the folder."""
    folder = place / f"nginx{port}"
    folder.mkdir()
    (folder / "small").write_bytes(bytes(1000))
    (folder / "large").write_bytes(bytes(100_000))
    (folder / "conf").write_text(NGINX.format(place=folder, address=address, port=port))
    return ["nginx", "-p", str(folder), "-c", str(folder / "conf")]


def wrk(port: int, path: str, *more: str) -> Seen:
    """One second of it."""
    text = said(["wrk", "-t1", f"-c{CONNECTIONS}", "-d1s", *more, f"http://127.0.0.1:{port}/{path}"])
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    requests = re.search(r"(\d+) requests in", text)
    assert rate and requests, text
    return Seen(float(rate[1]), int(requests[1]))


def set_value(port: int) -> None:
    """memcached's key `k`."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"set k 0 0 %d\r\n%s\r\n" % (VALUE, b"v" * VALUE))
        assert connection.recv(64) == b"STORED\r\n"


def servers(place: Path) -> dict[str, Server]:
    """By name; ask.c is built into `place`."""
    subprocess.run(["cc", "-O2", "-o", place / "ask", HERE / "ask.c"], check=True)
    value_bytes = len(b"VALUE k 0 %d\r\n" % VALUE) + VALUE + len(b"\r\nEND\r\n")
    return {
        "redis": Server(
            ("redis-server", "redis-benchmark"), redis_argv, {"GET, kept connections": Load(redis_load, 41)}
        ),
        "memcached": Server(
            ("memcached",),
            memcached_argv,
            {"get, kept connections": Load(lambda port: ask(place, port, r"get k\n", value_bytes), 41)},
        ),
        "nginx": Server(
            ("nginx", "wrk"),
            nginx_argv,
            {
                "1 KB, kept connections": Load(lambda port: wrk(port, "small"), 15),
                "1 KB, a connection each": Load(lambda port: wrk(port, "small", "-H", "Connection: close"), 9),
                "100 KB by sendfile": Load(lambda port: wrk(port, "large"), 11, (SPLIT, *MODES)),
            },
        ),
    }


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    subprocess.run(["make", "-s", "-C", str(HOSTLIB), "lib"], check=True)
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as name:
        place = Path(name)
        place.chmod(0o755)
        rows: list[dict[str, Any]] = []
        for server, how in servers(place).items():
            if missing := [program for program in how.needs if not shutil.which(program)]:
                click.echo(f"[bench] {server} skipped: {', '.join(missing)} not installed", err=True)
                continue
            rows += measured(place, server, how)
        return rows


def measured(place: Path, server: str, how: Server) -> list[dict[str, Any]]:
    """The rows of one server."""
    rows = []
    with environments(MODES) as environment, ExitStack() as stack:
        started: dict[str | None, tuple[int, int]] = {}
        under: dict[str | None, dict[str, str]] = {**environment, SPLIT: split_environment(place)}
        for mode in {None, *(mode for load in how.loads.values() for mode in load.modes)}:
            port = free_port()
            command = ["taskset", "-c", last_cpu(), *how.argv(port, place)]
            program = subprocess.Popen(command, env=under[mode], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(program.wait)
            stack.callback(program.terminate)
            started[mode] = port, program.pid
            wait_for(port)
            if server == "memcached":
                set_value(port)
        for name, load in how.loads.items():
            cpu: dict[str | None, list[float]] = {mode: [] for mode in started}

            def per_s(mode: str | None, load: Load = load, cpu: dict[str | None, list[float]] = cpu) -> float:
                port, pid = started[mode]
                before_ns = cpu_ns_of(pid)
                seen = load.ask(port)
                cpu[mode].append((cpu_ns_of(pid) - before_ns) / seen.requests)
                return seen.per_s

            rates = in_turns(load.modes, load.repeats, per_s)
            rows += [{"server": server, "load": name, **row_per_s(rates, cpu, mode, GOAL)} for mode in load.modes]
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
