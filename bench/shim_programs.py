"""What real servers carry under libqclimb.so: requests a second beside the same server bare, interleaved.

Server on one processor, bare load on another where there are two; only one server is asked at a time. All are started
anew every few turns: two processes of the same bare server differ by some percent for as long as they live, so that
many turns of one pair tell their difference. Goal: at least 0.98 of bare. CPU: what the scheduler gave the server, a
request; it is less in the hands of whatever else the machine does. References: `split`, the server keeps the boundary
itself, without the library (shim_split.c); `forward` and `count`, a library that only hands the calls on, or counts
their bytes too (shim_forward.c). A program that is not installed is said and skipped.
"""

import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

from .beside import (
    COUNT,
    FORWARD,
    SPLIT,
    built,
    cpu_ns_of,
    environments,
    free_port,
    in_turns,
    last_cpu,
    reference_environment,
    row_per_s,
)

MODES = (Mode.PIAS, Mode.QCLIMB)
LEAST = (FORWARD, COUNT, *MODES)
GOAL = ">= 0.98"
STARTS = 8
CONNECTIONS = 20
VALUE = 100
ASK_FIRST_ROUNDS = 20
"""Of ask.c, before its clock starts."""
SMALL_BYTES, LARGE_BYTES = 1000, 100_000

NGINX = """
worker_processes 1; daemon off; pid {place}/pid; error_log /dev/null;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile on; {more}
  client_body_temp_path {place}/b; proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u;
  scgi_temp_path {place}/s;
  server {{ listen {address}:{port}; root {place}; }}
}}
"""


@dataclass(frozen=True)
class Seen:
    """What one load saw."""

    per_s: float
    requests: int  # answered in all


@dataclass(frozen=True)
class Load:
    """How a server is asked, by its port, and how often after each of STARTS."""

    ask: Callable[[int], Seen]
    turns: int
    modes: Sequence[str] = MODES


@dataclass(frozen=True)
class Server:
    """Programs that it needs, its command by port and folder, its loads by name, what it is told first, by its port."""

    needs: tuple[str, ...]
    argv: Callable[[int, Path], list[str]]
    loads: dict[str, Load]
    prepare: Callable[[int], None] = lambda port: None


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


def ask(place: Path, port: int, request: str, answer_bytes: int, rounds: int, *more: str) -> Seen:
    """By the load of ask.c."""
    argv = [str(place / "ask"), str(port), str(CONNECTIONS), str(rounds), request, str(answer_bytes), *more]
    return Seen(float(said(argv)), (rounds + ASK_FIRST_ROUNDS) * CONNECTIONS)


def nginx_argv(port: int, place: Path, address: str = "127.0.0.1", more: str = "") -> list[str]:
    """Files of the folder; `more`: directives."""
    folder = place / f"nginx{port}"
    folder.mkdir(exist_ok=True)  # a port may come again
    (folder / "small").write_bytes(bytes(SMALL_BYTES))
    (folder / "large").write_bytes(bytes(LARGE_BYTES))
    (folder / "conf").write_text(NGINX.format(place=folder, address=address, port=port, more=more))
    return ["nginx", "-p", str(folder), "-c", str(folder / "conf")]


def wrk(port: int, path: str, *more: str) -> Seen:
    """One second of it."""
    text = said(["wrk", "-t1", f"-c{CONNECTIONS}", "-d1s", *more, f"http://127.0.0.1:{port}/{path}"])
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    requests = re.search(r"(\d+) requests in", text)
    assert rate and requests, text
    return Seen(float(rate[1]), int(requests[1]))


def nginx_small(place: Path, port: int, *more: str) -> Seen:
    """1 KB on kept connections, by ask.c: wrk takes whole seconds for a turn, and sleeps."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n")
        while len(answer.partition(b"\r\n\r\n")[2]) < SMALL_BYTES:
            answer += connection.recv(65536)
    return ask(place, port, r"GET /small HTTP/1.1\nHost: x\n\n", len(answer), 600, *more)


def set_value(port: int) -> None:
    """memcached's key `k`."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"set k 0 0 %d\r\n%s\r\n" % (VALUE, b"v" * VALUE))
        assert connection.recv(64) == b"STORED\r\n"


def servers(place: Path) -> dict[str, Server]:
    """By name; ask.c is built into `place`."""
    built(place, "ask.c")
    value_bytes = len(b"VALUE k 0 %d\r\n" % VALUE) + VALUE + len(b"\r\nEND\r\n")

    def nginx(name: str, *more: str) -> dict[str, Load]:
        return {name: Load(lambda port: nginx_small(place, port, *more), 5, LEAST)}

    def memcached(name: str, *more: str) -> dict[str, Load]:
        return {name: Load(lambda port: ask(place, port, r"get k\n", value_bytes, 1000, *more), 5, LEAST)}

    return {
        "redis": Server(
            ("redis-server", "redis-benchmark"), redis_argv, {"GET, kept connections": Load(redis_load, 5)}
        ),
        "memcached": Server(
            ("memcached",),
            memcached_argv,
            memcached("get, kept connections") | memcached("the same, a load that sleeps", "sleep"),
            set_value,
        ),
        "nginx": Server(
            ("nginx", "wrk"),
            nginx_argv,
            nginx("1 KB, kept connections")
            | nginx("the same, a load that sleeps", "sleep")
            | {
                "1 KB, a connection each": Load(lambda port: wrk(port, "small", "-H", "Connection: close"), 1),
                "100 KB by sendfile": Load(lambda port: wrk(port, "large"), 1, (SPLIT, *MODES)),
            },
        ),
        "nginx, tcp_nopush on": Server(
            ("nginx",),
            lambda port, place: nginx_argv(port, place, more="tcp_nopush on;"),  # as Debian's nginx.conf has it
            nginx("1 KB, kept connections"),
        ),
    }


def installed(place: Path) -> Iterator[tuple[str, Server]]:
    """The servers whose programs are here; the others are said."""
    for name, how in servers(place).items():
        if missing := [program for program in how.needs if not shutil.which(program)]:
            click.echo(f"[bench] {name} skipped: {', '.join(missing)} not installed", err=True)
        else:
            yield name, how


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        return [row for name, how in installed(place) for row in measured(place, name, how)]


@contextmanager
def running(
    place: Path, how: Server, under: dict[str | None, dict[str, str]]
) -> Iterator[dict[str | None, tuple[int, int]]]:
    """The server in each environment: its port and pid."""
    with ExitStack() as stack:
        started = {}
        for mode, environment in under.items():
            port = free_port()
            command = ["taskset", "-c", last_cpu(), *how.argv(port, place)]
            program = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(program.wait)
            stack.callback(program.terminate)
            started[mode] = port, program.pid
            wait_for(port)
            how.prepare(port)
        yield started


def turned(under: dict[str | None, dict[str, str]], by: int) -> dict[str | None, dict[str, str]]:
    """The same, in another order: who starts first may have the better place in memory."""
    order = sorted(under, key=str)
    return {mode: under[mode] for mode in order[by % len(order) :] + order[: by % len(order)]}


def measured(place: Path, server: str, how: Server) -> list[dict[str, Any]]:
    """The rows of one server."""
    modes: set[str | None] = {mode for load in how.loads.values() for mode in load.modes}
    rates: dict[str, dict[Any, list[float]]] = {name: defaultdict(list) for name in how.loads}
    cpu: dict[str, dict[Any, list[float]]] = {name: defaultdict(list) for name in how.loads}
    with environments(MODES) as environment:
        under = {mode: environment.get(mode) or reference_environment(place, str(mode)) for mode in {None, *modes}}
        for start in range(STARTS):
            with running(place, how, turned(under, start)) as started:
                for name, load in how.loads.items():

                    def per_s(mode: str | None, name: str = name, load: Load = load, at: Any = started) -> float:
                        port, pid = at[mode]
                        before_ns = cpu_ns_of(pid)
                        seen = load.ask(port)
                        cpu[name][mode].append((cpu_ns_of(pid) - before_ns) / seen.requests)
                        return seen.per_s

                    for mode, values in in_turns(load.modes, load.turns, per_s).items():
                        rates[name][mode] += values
    return [
        {"server": server, "load": name, **row_per_s(rates[name], cpu[name], mode, GOAL, load.turns)}
        for name, load in how.loads.items()
        for mode in load.modes
    ]
