"""PostgreSQL over TCP: pgbench's transactions add up, a table goes out and comes in again unchanged."""

import os
import re
import shutil
import signal
from pathlib import Path

from hostlib.compat.bed import Bed, CompatError
from hostlib.compat.outcome import PASSED, Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import digest

USER = "postgres"
SERVER = "/usr/lib/postgresql/*/bin/postgres"
TRANSACTIONS, CLIENTS = 400, 8
ROWS = 200_000


def run(bed: Bed) -> Outcome:
    """The server runs as the user `postgres` where we are root: it refuses to run as root."""
    port = bed.port()
    data = bed.folder / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        shutil.chown(data, USER)
    bin_dir = _server_programs()
    bed.run(bin_dir / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "-N", user=USER)
    bed.serve(
        *(bin_dir / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"),
        port=port,
        user=USER,
        stop=signal.SIGINT,
    )
    _until_ready(bed, port)
    bed.run("pgbench", *_to(port), "-i", "-q", "-s", "4", "postgres")
    results: dict[str, str] = {}
    rate = 0.0
    for protocol in ("simple", "prepared"):
        done = bed.run(
            *(
                "pgbench",
                *_to(port),
                "-c",
                str(CLIENTS),
                "-j",
                "2",
                "-t",
                str(TRANSACTIONS),
                "-M",
                protocol,
                "postgres",
            ),
            timeout_s=300,
        )
        said = done.stdout.decode()
        for name in ("number of transactions actually processed", "number of failed transactions"):
            results[f"pgbench {protocol}: {name}"] = _after(said, name)
        rate += float(_after(said, "tps").split()[0])
    sums = _ask(
        bed,
        port,
        "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches)"
        " and (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history),"
        " (select count(*) from pgbench_history)",
    )
    results["balances add up, transactions counted"] = sums
    _ask(
        bed,
        port,
        f"create table out as select n, md5(n::text) as m from generate_series(1, {ROWS}) n;"
        " create table back (like out)",
    )
    copied = bed.run("psql", *_to(port), "-c", "copy (select * from out order by n) to stdout", "postgres").stdout
    results["a table out"] = f"{len(copied)} bytes, sha256 {digest(copied)}"
    bed.run("psql", *_to(port), "-q", "-c", "copy back from stdin", "postgres", stdin=copied)
    again = bed.run("psql", *_to(port), "-c", "copy (select * from back order by n) to stdout", "postgres").stdout
    results["and in again"] = verdict(again == copied, f"{len(again)} bytes")
    value = bed.run("psql", *_to(port), "-At", "-c", "select repeat('qclimb', 1000000)", "postgres").stdout
    results["a value of 6 MB"] = (
        PASSED if value == b"qclimb" * 1_000_000 + b"\n" else verdict(False, f"{len(value)} bytes")
    )
    return Outcome(results, rate, "transactions/s")


def _to(port: int) -> tuple[str, ...]:
    return ("-h", "127.0.0.1", "-p", str(port), "-U", USER)


def _server_programs() -> Path:
    """Debian keeps them out of PATH, by version: the newest."""
    return max(Path("/").glob(SERVER.removeprefix("/"))).parent


def _until_ready(bed: Bed, port: int) -> None:
    """It listens before it answers."""
    for _ in range(100):
        if bed.run("pg_isready", *_to(port), "-t", "1", statuses=None).returncode == 0:
            return
    raise CompatError("postgres listens but is not ready; expected pg_isready to say so")


def _after(said: str, name: str) -> str:
    found = re.search(rf"^{name}\s*[:=]\s*(.*)$", said, re.MULTILINE)
    if found is None:
        raise CompatError(f"pgbench did not tell {name!r}; expected that line in: {said[-200:]}")
    return found[1]


def _ask(bed: Bed, port: int, query: str) -> str:
    return bed.run("psql", *_to(port), "-At", "-c", query, "postgres").stdout.decode().strip()


PROGRAM = Program(
    "postgres",
    "pgbench over TCP by both protocols, sums, COPY out and in, large values",
    ((SERVER, "postgresql"), ("psql", "postgresql-client"), ("pgbench", "postgresql")),
    run,
)
