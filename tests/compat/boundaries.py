"""`python -m tests.compat.boundaries`: how many messages programs send, and how many flows libqclimb.so sees in them.

Request and response, pipelined, multiplexed and full-duplex protocols by real programs, one connection each, in mode
`observe` over a loopback of MTU 1500; the count of messages is the program's own. Flows are those of the library's log.
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode
from tabulate import tabulate

from hostlib.run import LIBRARY
from tests.compat.bed import CompatError, own_network, policy, shape_loopback

REQUESTS = 1000
BODY_BYTES = 10_000
HTTP, REDIS, IPERF = 7201, 7202, 7203
NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error warn; user root;
events {{}}
http {{ access_log off; keepalive_requests 1000000;
  client_body_temp_path {folder}/client_body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:7201; root {folder}; }} server {{ listen 127.0.0.1:7204 http2; root {folder}; }} }}
"""


@dataclass(frozen=True)
class Load:
    """One program's traffic: what listens, who asks, and how many messages go each way."""

    about: str
    server: tuple[str, ...]
    client: tuple[str, ...]
    messages: int
    port: int


def loads(folder: Path) -> list[Load]:
    """All of them; `folder` has the files."""
    nginx = ("nginx", "-c", str(folder / "nginx.conf"))
    redis = ("redis-server", "--port", str(REDIS), "--save", "", "--dir", str(folder), "--protected-mode", "no")
    h2load = ("h2load", "-n", str(REQUESTS), "-c", "1", "-t", "1")
    bench = ("redis-benchmark", "-p", str(REDIS), "-c", "1", "-n", str(REQUESTS), "-t", "get", "-q")
    one, two = f"http://127.0.0.1:{HTTP}/body", "http://127.0.0.1:7204/body"
    return [
        Load("HTTP/1.1, one after another", nginx, (*h2load, "--h1", "-m", "1", one), REQUESTS, HTTP),
        Load("HTTP/2, one stream at a time", nginx, (*h2load, "-m", "1", two), REQUESTS, 7204),
        Load("HTTP/2, 10 streams at once", nginx, (*h2load, "-m", "10", two), REQUESTS, 7204),
        Load("redis, one after another", redis, (*bench, "-P", "1"), REQUESTS, REDIS),
        Load("redis, pipelines of 16", redis, (*bench, "-P", "16"), REQUESTS, REDIS),
        Load(
            "iperf3, 20 MB both ways at once",
            ("iperf3", "-s", "-p", str(IPERF), "--one-off"),
            ("iperf3", "-c", "127.0.0.1", "-p", str(IPERF), "--bidir", "-n", "20M"),
            1,
            IPERF,
        ),
    ]


@contextmanager
def listening(load: Load, environment: dict[str, str]) -> Iterator[None]:
    """The server, once it listens."""
    with subprocess.Popen(load.server, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + 20
            while f":{load.port:04X} 00000000:0000 0A" not in (
                Path("/proc/self/net/tcp").read_text() + Path("/proc/self/net/tcp6").read_text()
            ).replace("00000000000000000000000000000000:0000 0A", "00000000:0000 0A"):
                if time.monotonic() > end or server.poll() is not None:
                    raise CompatError(f"{load.server[0]} does not listen on port {load.port}")
                time.sleep(0.02)
            yield
        finally:
            server.terminate()


def sizes(log: Path) -> list[int]:
    """Bytes of each flow."""
    return [int(size) for size in re.findall(r"flow ends size=(\d+)", log.read_text())] if log.exists() else []


def measure(load: Load, folder: Path) -> list[dict[str, Any]]:
    """Two rows: what the client sent and what the server sent."""
    logs = {side: folder / f"{side}.log" for side in ("client", "server")}
    for log in logs.values():
        log.unlink(missing_ok=True)
    under = {
        side: {**os.environ, "LD_PRELOAD": str(LIBRARY), "QCLIMB_RUN": str(folder / "run"), "QCLIMB_LOG": str(log)}
        for side, log in logs.items()
    }
    with listening(load, under["server"]):
        subprocess.run(load.client, env=under["client"], check=True, stdout=subprocess.DEVNULL, timeout=120)
    rows = []
    for side, log in logs.items():
        found = sizes(log)
        rows.append(
            {
                "program": load.about,
                "sender": side,
                "messages": load.messages,
                "flows": len(found),
                "median_bytes": int(statistics.median(found)) if found else 0,
                "largest_bytes": max(found, default=0),
                "bytes": sum(found),
            }
        )
    return rows


@click.command(epilog="Example: python -m tests.compat.boundaries --json")
@click.option("--rate", default="500mbit", show_default=True, help="The loopback's, as tc writes it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list instead of the table.")
def main(rate: str, as_json: bool) -> None:
    """Count messages and flows of real programs, in a network namespace of their own (root)."""
    missing = [name for name in ("nginx", "h2load", "redis-server", "iperf3") if not shutil.which(name)]
    if missing:
        click.echo(f"boundaries: {', '.join(missing)}: not installed; expected on PATH", err=True)
        sys.exit(2)
    if not own_network():
        click.echo("boundaries: needs root: makes a network namespace", err=True)
        sys.exit(2)
    shape_loopback(rate)
    with tempfile.TemporaryDirectory(prefix="qclimb-boundaries-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        (folder / "body").write_bytes(bytes(BODY_BYTES))
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder))
        (folder / "run").mkdir()
        (folder / "run" / "policy").write_bytes(encode_policy(policy(Mode.OBSERVE)))
        rows = [row for load in loads(folder) for row in measure(load, folder)]
    click.echo(json.dumps(rows, indent=2) if as_json else tabulate(rows, headers="keys", intfmt=","))


if __name__ == "__main__":
    main()
