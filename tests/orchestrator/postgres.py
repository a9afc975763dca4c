"""A PostgreSQL server of the tests' own, on a Unix socket, with no network; as a user that is not root."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.waiting import wait_until

USER = "nobody"


def programs() -> Path | None:
    """The folder of initdb and postgres: Debian keeps them off the PATH."""
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return installed[-1].parent if installed else None


class Server:
    """One server; each database that is asked for is a new one."""

    def __init__(self, folder: Path, bins: Path) -> None:
        self.folder, self.bins = folder, bins
        self._numbers = itertools.count()
        self._user = {"user": USER} if os.getuid() == 0 else {}
        owner = ("--username", "qclimb", "--auth", "trust", "--no-sync", "--encoding", "UTF8")
        self._run("initdb", *owner, "-D", str(folder / "data"))
        self.start()

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run([self.bins / program, *words], capture_output=True, text=True, cwd="/", **self._user)
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        """Takes connections at its end."""
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "fsync": "off"}
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.bins / "postgres", "-D", self.folder / "data", *words], stderr=log, cwd="/", **self._user
            )

        def takes_connections() -> bool:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url("postgres")).close()
                return True
            return False

        wait_until(takes_connections, "PostgreSQL takes connections")

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """At once, as a crash would."""
        self._process.send_signal(how)
        self._process.wait(60)

    def url(self, name: str) -> str:
        """Of a database."""
        return f"postgresql://qclimb@/{name}?host={self.folder}"

    def new(self, encoding: str = "UTF8") -> str:
        """The URL of an empty database."""
        name = f"db{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        return self.url(name)

    def end_sessions(self, url: str) -> None:
        """Ends qclimb's sessions with the database of a URL, as a network that breaks would."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            name = url.partition("@/")[2].partition("?")[0]
            connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name]
            )


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Runs one; its data are gone at the end. The folder is not pytest's, into which only root can look."""
    bins = programs()
    assert bins is not None
    folder = Path(tempfile.mkdtemp(prefix="qclimb-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, USER)
        found = Server(folder, bins)
        try:
            yield found
        finally:
            found.stop()
    finally:
        shutil.rmtree(folder)
