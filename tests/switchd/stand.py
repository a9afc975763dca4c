"""Real things to test against.

A redis-server on a Unix socket, certificates, our daemon as a process, pygnmi as the client.
"""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from pygnmi.client import gNMIclient

from switchd.db_swsscommon import NAMES
from switchd.previous import is_own
from tests import waiting
from tests.forked import SWITCHD, Forked

CONFIG, STATE, APPL, ASIC, COUNTERS = 4, 6, 0, 1, 2
DEADLINE_S = 120.0
"""Only a machine that hangs takes as long: nothing is promised of time here."""


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """As tests.waiting has it, while redis may be away."""

    def answer() -> Any:
        with suppress(redis.ConnectionError, redis.BusyLoadingError, FileNotFoundError):
            return holds()
        return None

    return waiting.wait_until(answer, what)


class Redis:
    """One redis-server with an append-only file, so that it comes back with its rows."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}"
        self.start()

    def start(self) -> None:
        settings = {
            "port": 0,
            "unixsocket": self.socket,
            "dir": self.directory,
            "save": "",
            "notify-keyspace-events": "AKE",  # as SONiC starts it
            "appendonly": "yes",
            "appendfsync": "no",  # the kernel has each write before it is answered, and keeps it when redis is killed
        }
        flags = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
        self.process = subprocess.Popen(["redis-server", *flags], stdout=subprocess.DEVNULL)
        wait_until(lambda: self.db(CONFIG).ping(), "redis answers")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.unlink(missing_ok=True)

    def db(self, number: int) -> "redis.Redis":
        return redis.Redis(unix_socket_path=str(self.socket), db=number, decode_responses=True)

    def rows(self, *tables: str) -> dict[str, dict[str, dict[str, str]]]:
        config = self.db(CONFIG)
        found: dict[str, dict[str, dict[str, str]]] = {table: {} for table in tables}
        for text in config.keys("*|*"):
            table, _, key = text.partition("|")
            if table in found:
                found[table][key] = config.hgetall(text)
        return found

    def load(self, rows: dict[str, dict[str, dict[str, str]]]) -> None:
        """All rows at once: of half of them, seen while this process waits for a CPU, a daemon makes something else."""
        with self.db(CONFIG).pipeline() as pipe:
            for table, entries in rows.items():
                for key, row in entries.items():
                    pipe.hset(f"{table}|{key}", mapping=row)
            pipe.set("CONFIG_DB_INITIALIZED", "1")
            pipe.execute()

    def drop(self, *tables: str) -> None:
        """What `config qos clear` does to tables."""
        config = self.db(CONFIG)
        for table in tables:
            for key in config.keys(f"{table}|*"):
                config.delete(key)

    def effect(self, *tables: str) -> dict[str, dict[str, dict[str, str]]]:
        """The rows with the content of our objects in place of their names, which a repair changes."""
        rows = self.rows(*tables)
        text = {key: f"{table} {sorted(row.items())}" for table, e in rows.items() for key, row in e.items()}
        return {
            table: {
                text[key] if is_own(key) else key: {f: text.get(v, v) if is_own(v) else v for f, v in row.items()}
                for key, row in entries.items()
            }
            for table, entries in rows.items()
        }

    def status(self) -> dict[str, str]:
        return self.db(STATE).hgetall("QCLIMB_STATUS|global")


def point_swsscommon_at(server: Redis) -> None:
    """Let SONiC's library find its databases in this redis; skips the test where it can't be imported."""
    swsscommon = pytest.importorskip(
        "swsscommon.swsscommon", reason="swsscommon can't be imported here (it comes with SONiC)"
    )
    databases = {
        name: {"id": number, "separator": "|" if number in (CONFIG, STATE) else ":", "instance": "redis"}
        for number, name in NAMES.items()
    }
    instance = {"hostname": "127.0.0.1", "port": 6379, "unix_socket_path": str(server.socket)}
    file = server.directory / "database_config.json"
    file.write_text(json.dumps({"INSTANCES": {"redis": instance}, "DATABASES": databases, "VERSION": "1.0"}))
    swsscommon.SonicDBConfig.reset()
    swsscommon.SonicDBConfig.load_sonic_db_config(str(file))


@contextmanager
def running_redis() -> Iterator[Redis]:
    with tempfile.TemporaryDirectory(
        prefix="qcr"
    ) as directory:  # a Unix socket's path has 107 bytes, tmp_path may have more
        server = Redis(Path(directory))
        try:
            yield server
        finally:
            server.kill()


PLATFORM: dict[str, dict[str, dict[str, str]]] = {
    "PORT": {f"Ethernet{4 * n}": {"lanes": str(n), "speed": "25000", "admin_status": "up"} for n in range(4)},
    "DEVICE_METADATA": {"localhost": {"hostname": "l1"}},
    "GNMI_CLIENT_CERT": {
        "orchestrator": {"role@": "gnmi_config_db_readwrite,gnmi_readonly"},
        "viewer": {"role@": "gnmi_config_db_readonly"},
    },
}


@dataclass(frozen=True)
class Pki:
    """Files of a CA, the switch, and clients by common name."""

    directory: Path

    def file(self, name: str, kind: str) -> str:
        return str(self.directory / f"{name}.{kind}")


@dataclass
class Daemon:
    """qclimb-switchd as a process."""

    process: Forked
    port: int
    pki: Pki
    log: Path
    plain_port: int | None = None
    """where it was told to serve without TLS, too"""

    def client(self, name: str = "orchestrator", ca: str = "ca", **options: Any) -> gNMIclient:
        return gNMIclient(
            target=("127.0.0.1", str(self.port)),
            path_root=self.pki.file(ca, "pem"),
            path_cert=self.pki.file(name, "pem"),
            path_key=self.pki.file(name, "key"),
            **options,
        )


@contextmanager
def running_daemon(redis_url: str, pki: Pki, log: Path, *flags: str) -> Iterator[Daemon]:
    tls = [
        "--tls-cert",
        pki.file("switch", "pem"),
        "--tls-key",
        pki.file("switch", "key"),
        "--tls-ca",
        pki.file("ca", "pem"),
    ]
    words = [
        "--redis",
        redis_url,
        "--backend",
        "redis",
        "--listen",
        "127.0.0.1:0",
        "--quiet-s",
        "0",
        *tls,
        *flags,
    ]
    with log.open("a") as stderr:
        before = stderr.tell()  # another daemon's lines
    process = Forked(SWITCHD, words, log)
    ports = 1 + ("--plain-loopback" in flags)

    def ready() -> "list[str] | bool":
        said = re.findall(r" ready address=\S+ port=(\d+)", log.read_text()[before:])
        return said if len(said) == ports else process.poll() is not None

    try:
        said = wait_until(ready, "switchd is ready")
        assert process.poll() is None, log.read_text()
        yield Daemon(process, int(said[0]), pki, log, int(said[1]) if ports > 1 else None)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
