"""What it costs a switch to take an intent: from a Set to rows, and to rows that are seen in the ASIC, of rows alone.

128 ports of 8 queues over a real redis, orchagent's stand-in below it in a process of its own. Rows alone: the same
rows written by one transaction that nobody planned. Beside it what a daemon takes that has nothing to do.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import redis
from qclimb.intent import QueueClass, SwitchIntent

from switchd.apply import Switch
from switchd.db_redis import RedisDatabase
from switchd.rows import Change, Merge

PORTS, REPEATS, IDLE_S = 128, 9, 10.0
STAND_IN = """
import sys
from lab.control.vasic.follow import Follower
follower = Follower(sys.argv[1])
follower.start()
print("ready", flush=True)
while True:
    if follower.wait(1):
        follower.take()
        follower.tell()
"""


def intent(generation: int) -> SwitchIntent:
    classes = tuple(QueueClass(p, 47 - 4 * p, 7 - p, threshold_bytes=generation * p) for p in range(8 - generation % 2))
    return SwitchIntent(generation, "enabled", classes)


def run() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="qcb") as place:
        socket = Path(place, "redis.sock")
        flags = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--notify-keyspace-events", "AKE"]
        server = subprocess.Popen(["redis-server", *flags], stdout=subprocess.DEVNULL)
        try:
            return measured(socket)
        finally:
            server.kill()
            server.wait()


def measured(socket: Path) -> list[dict[str, object]]:
    connection = redis.Redis(unix_socket_path=str(socket), db=4)
    while not socket.exists() or not _answers(connection):
        time.sleep(0.05)
    for n in range(PORTS):
        connection.hset(f"PORT|Ethernet{4 * n}", "speed", "25000")
    connection.set("CONFIG_DB_INITIALIZED", "1")
    asic = subprocess.Popen([sys.executable, "-c", STAND_IN, str(socket)], stdout=subprocess.PIPE)
    try:
        assert asic.stdout is not None and asic.stdout.readline()
        db = RedisDatabase(f"unix://{socket}")
        switch = Switch(db)
        alone, rows, seen = [], [], []
        for generation in range(2, 2 + REPEATS):
            wanted = intent(generation)
            start = time.perf_counter()
            switch.edit(partial(_given, wanted))
            rows.append(time.perf_counter() - start)
            while switch.snapshot.status.applied_generation != generation:
                time.sleep(min(switch.look(), 0.02))
            seen.append(time.perf_counter() - start)
            while switch.look() < 1:
                time.sleep(0.01)
            tables = db.get_tables(("PORT_QOS_MAP", "QUEUE"))
            same: list[Change] = [Merge(table, key, row) for table, e in tables.items() for key, row in e.items()]
            start = time.perf_counter()
            db.write(same)
            alone.append(time.perf_counter() - start)
        switch.leave()
        db.close()
        base, count = statistics.median(alone), len(same)
        found: list[dict[str, object]] = [{"what": f"{count} rows alone", "ms": 1000 * base, "ratio": 1.0}]
        for what, times in (("Set to rows", rows), ("Set to seen in the ASIC", seen)):
            median = statistics.median(times)
            found.append({"what": what, "ms": 1000 * median, "ratio": median / base})
        return [*found, idle(socket)]
    finally:
        asic.kill()
        asic.wait()


def idle(socket: Path) -> dict[str, object]:
    command = [sys.executable, "-m", "switchd.cli", "--redis", f"unix://{socket}", "--backend", "redis"]
    flags = ["--plain-loopback", "127.0.0.1:0", "--log-level", "warning"]
    daemon = subprocess.Popen([*command, *flags])
    try:
        time.sleep(5.0)
        before = _cpu_s(daemon.pid)
        time.sleep(IDLE_S)
        share = (_cpu_s(daemon.pid) - before) / IDLE_S
        status = Path("/proc", str(daemon.pid), "status").read_text()
        rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return {"what": f"idle daemon: {rss / 1024:.0f} MB resident, share of a CPU", "ms": None, "ratio": share}
    finally:
        daemon.terminate()
        daemon.wait()


def _given(wanted: SwitchIntent, _before: SwitchIntent | None) -> SwitchIntent:
    return wanted


def _cpu_s(pid: int) -> float:
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _answers(connection: "redis.Redis") -> bool:
    try:
        return bool(connection.ping())
    except redis.ConnectionError:
        return False
