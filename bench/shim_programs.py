"""What real servers carry under libqclimb.so: requests a second beside the same server bare, interleaved.

Server on one processor, bare load on another where there are two. Each server stays up for the whole benchmark; only
one is asked at a time. Goal: at least 0.98 of bare. A program that is not installed is said and skipped.
"""

import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from qclimb.policy import Mode

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from beside import HOSTLIB, compared, environments, in_turns, last_cpu  # noqa: E402

MODES = (Mode.PIAS, Mode.QCLIMB)
REPEATS = 15
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

Load = Callable[[int], float]


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


def redis_load(port: int) -> float:
    """GETs of 100 bytes."""
    lines = said(
        ["redis-benchmark", "-p", str(port), "-t", "get", "-n", "20000", "-c", str(CONNECTIONS), "-d", "100", "--csv"]
    )
    return float(lines.splitlines()[-1].split(",")[1].strip('"'))


def memcached_argv(port: int, place: Path) -> list[str]:
    """One thread: one processor."""
    del place
    return ["memcached", "-l", "127.0.0.1", "-p", str(port), "-t", "1", "-u", "nobody"]


def ask(place: Path, port: int, request: str, answer_bytes: int, rounds: int = 1000) -> float:
    """By the load of ask.c."""
    return float(said([str(place / "ask"), str(port), str(CONNECTIONS), str(rounds), request, str(answer_bytes)]))


def nginx_argv(port: int, place: Path, address: str = "127.0.0.1") -> list[str]:
    """Files of the folder."""
    folder = place / f"nginx{port}"
    folder.mkdir()
    (folder / "small").write_bytes(bytes(1000))
    (folder / "large").write_bytes(bytes(100_000))
    (folder / "conf").write_text(NGINX.format(place=folder, address=address, port=port))
    return ["nginx", "-p", str(folder), "-c", str(folder / "conf")]


def wrk(port: int, path: str, *more: str) -> float:
    """Requests a second."""
    text = said(["wrk", "-t1", f"-c{CONNECTIONS}", "-d1s", *more, f"http://127.0.0.1:{port}/{path}"])
    found = re.search(r"Requests/sec:\s+([\d.]+)", text)
    assert found, text
    return float(found[1])


def set_value(port: int) -> None:
    """memcached's key `k`."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"set k 0 0 %d\r\n%s\r\n" % (VALUE, b"v" * VALUE))
        assert connection.recv(64) == b"STORED\r\n"


def run() -> list[dict[str, Any]]:
    """Rows of the benchmark."""
    subprocess.run(["make", "-s", "-C", str(HOSTLIB), "lib"], check=True)
    with tempfile.TemporaryDirectory(prefix="qclimb-bench-") as name:
        place = Path(name)
        place.chmod(0o755)
        subprocess.run(["cc", "-O2", "-o", place / "ask", HERE / "ask.c"], check=True)
        value_bytes = len(b"VALUE k 0 %d\r\n" % VALUE) + VALUE + len(b"\r\nEND\r\n")
        servers: dict[str, tuple[tuple[str, ...], Callable[[int, Path], list[str]], dict[str, Load]]] = {
            "redis": (("redis-server", "redis-benchmark"), redis_argv, {"GET, kept connections": redis_load}),
            "memcached": (
                ("memcached",),
                memcached_argv,
                {"get, kept connections": lambda port: ask(place, port, r"get k\n", value_bytes)},
            ),
            "nginx": (
                ("nginx", "wrk"),
                nginx_argv,
                {
                    "1 KB, kept connections": lambda port: wrk(port, "small"),
                    "100 KB by sendfile": lambda port: wrk(port, "large"),
                    "1 KB, a connection each": lambda port: wrk(port, "small", "-H", "Connection: close"),
                },
            ),
        }
        rows: list[dict[str, Any]] = []
        for server, (needs, argv, loads) in servers.items():
            if missing := [program for program in needs if not shutil.which(program)]:
                click.echo(f"[bench] {server} skipped: {', '.join(missing)} not installed", err=True)
                continue
            rows += measured(place, server, argv, loads)
        return rows


def measured(
    place: Path, server: str, argv: Callable[[int, Path], list[str]], loads: dict[str, Load]
) -> list[dict[str, Any]]:
    """The rows of one server."""
    rows = []
    with environments(MODES) as environment, ExitStack() as stack:
        ports: dict[Mode | None, int] = {}
        for mode in (None, *MODES):
            ports[mode] = free_port()
            command = ["taskset", "-c", last_cpu(), *argv(ports[mode], place)]
            program = subprocess.Popen(
                command, env=environment[mode], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(program.wait)
            stack.callback(program.terminate)
            wait_for(ports[mode])
            if server == "memcached":
                set_value(ports[mode])
        for load, measure in loads.items():
            rates = in_turns(MODES, REPEATS, lambda mode, measure=measure: measure(ports[mode]))  # type: ignore[misc]
            rows += [
                {
                    "server": server,
                    "load": load,
                    "mode": str(mode),
                    "bare_per_s": statistics.median(rates[None]),
                    "per_s": statistics.median(rates[mode]),
                    **compared(rates, mode),
                    "goal": GOAL,
                }
                for mode in MODES
            ]
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
