"""Starting and ending the applications of a pass: servers, nginx and drivers, in the hosts of a ground."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.build import make
from lab.workload import steps
from lab.workload.ground import Ground
from lab.workload.services import SERVICES, Endpoint, Service
from lab.workload.trace import catalogue

APP = Path(__file__).parent / "app"
TRAFFIC = APP / "build" / "traffic"
LISTEN_DEADLINE_S = 120.0
GRACE_S = 0.3
"""The servers see their clients' connections end before they are ended themselves."""


class WorkloadError(Exception):
    """Traffic can't run as asked; one sentence for the person at the terminal."""


def build_applications() -> Path:
    """Compiles the applications if their sources are newer; the path of the program."""
    if failure := make(APP):
        raise WorkloadError(f"building {APP} failed: {failure}")
    return TRAFFIC


def write_files(service: Service, folder: Path) -> None:
    """The files that nginx serves: one per size of the catalogue, named by its size in bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for size in catalogue(service):
        (folder / str(size)).write_bytes(os.urandom(size))


def nginx_settings(address: str, port: int, files: Path, folder: Path, more: str = "") -> str:
    """A whole nginx configuration that touches nothing outside `folder`: sendfile, one worker, no access log.

    `more`: further settings of the server.
    """
    temporary = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""daemon off;
worker_processes 1;
{"user root;" if os.geteuid() == 0 else ""}
pid {folder}/pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
{temporary}
    server {{
        listen {address}:{port};
        root {files};
        client_max_body_size 200m;
        {more}
    }}
}}
"""


def start_servers(
    ground: Ground,
    folder: Path,
    services: Sequence[Endpoint] = SERVICES,
    scripts: Sequence[str] = (),
    is_watched: bool = False,
) -> list[subprocess.Popen[bytes]]:
    """One process per service and host; returns when all listen. `scripts`: `--trace FILE`, `--words FILE`; watched
    ones leave what steps.py reads."""
    program = build_applications()
    running: list[tuple[subprocess.Popen[bytes], str, int, Path]] = []
    try:
        for service in services:
            files = folder / "files"
            if service.how == "curl" and not shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin"):
                raise WorkloadError("nginx is missing; `make setup` installs it")
            if isinstance(service, Service) and service.catalogue:
                write_files(service, files)
            for host in service.served_by(list(ground.hosts)):
                output = folder / f"{service.name}-{host}.txt"
                address = ground.hosts[host]
                if service.how == "curl":
                    place = folder / f"nginx-{host}"
                    place.mkdir(parents=True, exist_ok=True)
                    settings = place / "nginx.conf"
                    settings.write_text(nginx_settings(address, service.port, files, place), encoding="utf-8")
                    nginx = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin") or "nginx"
                    argv = [nginx, "-e", str(place / "error.log"), "-c", str(settings)]
                else:
                    argv = [str(program), "serve", "--bind", address, "--port", str(service.port)]
                    argv += ["--write", service.writing, *scripts]
                    if is_watched:
                        argv = steps.watched(argv, folder, steps.server_name(service.name, host))
                running.append((ground.start(host, argv, output), address, service.port, output))
        for process, address, port, output in running:
            wait_listening(process, address, port, output)
    except BaseException:
        end([process for process, *_ in running])
        raise
    return [process for process, *_ in running]


def start_driver(
    ground: Ground,
    host: str,
    trace: Path,
    log: Path,
    start_ns: int,
    deadline_s: int,
    services: Sequence[Endpoint] = SERVICES,
    words: Path | None = None,
    is_watched: bool = False,
) -> subprocess.Popen[bytes]:
    """The client side of one host: begins its flows of the trace at their times after start_ns (CLOCK_MONOTONIC)."""
    argv = [str(TRAFFIC), "drive", "--me", host, "--trace", str(trace), "--log", str(log)]
    argv += ["--start-ns", str(start_ns), "--deadline-s", str(deadline_s)]
    argv += ["--words", str(words)] if words else []
    for name, address in ground.hosts.items():
        argv += ["--host", f"{name}={address}"]
    for service in services:
        writing = f",{service.writing}" if service.how == "push" else ""
        argv += ["--service", f"{service.name}={service.port},{service.how}{writing}"]
    if is_watched:
        argv = steps.watched(argv, log.parent, steps.driver_name(host))
    return ground.start(host, argv, log.with_suffix(".txt"))


def end(processes: Sequence[subprocess.Popen[bytes]], patience_s: float = 3.0) -> None:
    """SIGTERM, then SIGKILL to what is left."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    until = time.monotonic() + patience_s
    for process in processes:
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def servers(
    ground: Ground,
    folder: Path,
    services: Sequence[Endpoint] = SERVICES,
    scripts: Sequence[str] = (),
    is_watched: bool = False,
) -> Iterator[None]:
    """Servers for the length of a block; they end with it, also when it fails."""
    running = start_servers(ground, folder, services, scripts, is_watched)
    try:
        yield
        dead = [process.args for process in running if process.poll() is not None]
        if dead:
            raise WorkloadError(f"{len(dead)} servers ended during the pass, the first: {dead[0]!r}")
        time.sleep(GRACE_S)
    finally:
        end(running)


def wait_listening(process: subprocess.Popen[bytes], address: str, port: int, output: Path) -> None:
    """Until a server listens; WorkloadError, with its last words, when it ends first or takes too long."""
    until = time.monotonic() + LISTEN_DEADLINE_S
    while not _listens(process.pid, address, port):
        if process.poll() is not None:
            words = output.read_text(encoding="utf-8", errors="replace").strip()
            raise WorkloadError(f"{process.args!r} ended at once with {process.returncode}: {words[-500:]}")
        if time.monotonic() > until:
            raise WorkloadError(f"{process.args!r} does not listen on {address}:{port} after {LISTEN_DEADLINE_S:g} s")
        time.sleep(0.01)


def _listens(pid: int, address: str, port: int) -> bool:
    """Whether somebody listens there in the network of process `pid`."""
    octets = bytes(int(part) for part in address.split("."))
    wanted = f"{int.from_bytes(octets, 'little'):08X}:{port:04X}"
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1] == wanted and fields[3] == "0A":
                return True
    return False
