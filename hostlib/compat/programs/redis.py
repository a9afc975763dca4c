"""redis: redis-benchmark with and without pipelining, values that come back, a replica that has the same data."""

import csv
import io
import time

from hostlib.compat.bed import Bed, CompatError
from hostlib.compat.outcome import FAILED, PASSED, Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import body, same

SIZES = (1, 1_000, 1_001, 100_000, 5_000_000)
REPLICA_S = 60
TESTS = "set,get,lpush,lrange_100,mset"


def run(bed: Bed) -> Outcome:
    """Checks the benchmark's errors, bytes of values, the server's own count of errors, the replica's digest."""
    port = bed.port()
    _serve(bed, port)
    results: dict[str, str] = {}
    rates = []
    for name, more in (
        ("plain", ("-n", "4000", "-d", "1500")),
        ("pipelined", ("-n", "10000", "-P", "16", "-d", "200")),
    ):
        done = bed.run("redis-benchmark", "-p", str(port), "-c", "50", "--csv", "-t", TESTS, *more, timeout_s=300)
        told = (done.stdout + done.stderr).decode()
        rows = list(csv.DictReader(io.StringIO(done.stdout.decode())))
        for row in rows:
            results[f"benchmark {name}: {row['test']}"] = verdict(
                "rror" not in told and float(row["rps"]) > 0, told[-200:]
            )
        rates += [float(row["rps"]) for row in rows if row["test"] == "GET"]
    for size in SIZES:
        wanted = body(size).hex().encode()
        said = _cli(bed, port, "-x", "set", f"key-{size}", stdin=wanted)
        got = _cli(bed, port, "get", f"key-{size}")
        results[f"a value of {2 * size} bytes"] = same(got, wanted) if said == b"OK" else verdict(False, said)
    pipe = b"".join(b"*3\r\n$3\r\nSET\r\n$7\r\np%06d\r\n$4\r\n%04d\r\n" % (n, n % 10_000) for n in range(50_000))
    said = _cli(bed, port, "--pipe", stdin=pipe).splitlines()[-1]
    results["50,000 commands in one pipe"] = said.decode()
    results["a replica has the same data"] = _replicate(bed, port)
    stats = dict(line.split(b":", 1) for line in _cli(bed, port, "info", "stats").split(b"\r\n") if b":" in line)
    results["error replies"] = stats[b"total_error_replies"].decode()
    return Outcome(results, sum(rates), "GET/s")


def _serve(bed: Bed, port: int, *more: str) -> None:
    folder = bed.folder / f"redis-{port}"
    folder.mkdir()
    bed.serve(
        *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder),
        *("--enable-debug-command", "local", "--repl-diskless-sync-delay", "0", *more),
        port=port,
    )


def _cli(bed: Bed, port: int, *words: str, stdin: bytes = b"") -> bytes:
    return bed.run("redis-cli", "-p", str(port), *words, stdin=stdin).stdout.removesuffix(b"\n")


def _replicate(bed: Bed, port: int) -> str:
    replica = bed.port()
    _serve(bed, replica, "--replicaof", f"127.0.0.1 {port}")
    end = time.monotonic() + REPLICA_S
    while b"master_link_status:up" not in _cli(bed, replica, "info", "replication"):
        if time.monotonic() > end:
            raise CompatError(f"the replica has no link to its master after {REPLICA_S} s")
        time.sleep(0.05)
    _cli(bed, port, "set", "last", "word")
    waited = _cli(bed, port, "wait", "1", "20000")
    ours, theirs = _cli(bed, port, "debug", "digest"), _cli(bed, replica, "debug", "digest")
    return PASSED if ours == theirs and waited == b"1" else f"{FAILED}: {ours!r} against {theirs!r}, {waited!r} waited"


PROGRAM = Program(
    "redis",
    "redis-benchmark plain and pipelined, values to 10 MB, a replica's full synchronisation",
    (("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("redis-cli", "redis-tools")),
    run,
)
