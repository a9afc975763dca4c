"""A host that marks all its bulk as urgent: switchd has an alarm for it, and a limit leaves the others their part."""

import subprocess
import sys
import time

import pytest

from lab.control.plane import redis_socket
from lab.control.platform_rows import rows_of
from lab.control.vasic.rows import CONFIG_DB, COUNTERS_DB, STATE_DB, connect
from lab.fabric.traffic import Sink, bulk

pytestmark = pytest.mark.fabric

DEADLINE_S = 120
GUARD_S = 2
URGENT, LAST = 47, 43
INTENT = {
    "QCLIMB|global": {"generation": "1", "admin_state": "enabled"},
    "QCLIMB_CLASS|0": {"dscp": str(URGENT), "queue": "7", "foretold_share": "0.05"},
    "QCLIMB_CLASS|1": {"dscp": str(LAST), "queue": "1", "threshold_bytes": "0", "foretold_share": "0.95"},
}


def until(what, ready):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := ready()):
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
        time.sleep(0.05)
    return found


class Guarded:
    """Redis, vasic and switchd on l2, below which h3 receives from h1 and h2."""

    def __init__(self, links):
        self.links, path = links, redis_socket(links, "l2")
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = ["--port", "0", "--unixsocket", str(path), "--save", "", "--notify-keyspace-events", "AKE"]
        self.processes = [links.popen("l2", ["redis-server", *flags], stdout=subprocess.DEVNULL)]
        self.config, self.state, self.counters = (connect(str(path), db) for db in (CONFIG_DB, STATE_DB, COUNTERS_DB))
        until("redis answers", self._answers)
        for key, row in (rows_of(links.topology, "l2", {}) | INTENT).items():
            self.config.hset(key, mapping=row)
        self.config.set("CONFIG_DB_INITIALIZED", "1")
        bpf = ["--bpf", str(links.directory / "bpf")] if links.shared_buffer is not None else []
        vasic = [sys.executable, "-m", "lab.control.vasic", "--redis", str(path), "--shaper", links.record.shaper]
        daemon = [sys.executable, "-m", "switchd.cli", "--redis", f"unix://{path}", "--backend", "redis"]
        daemon += ["--plain-loopback", "127.0.0.1:9341", "--quiet-s", "0", "--guard-s", str(GUARD_S)]
        self.processes += [links.popen("l2", argv, stderr=subprocess.DEVNULL) for argv in (vasic + bpf, daemon)]
        self.port = next(port.name for port in links.topology.ports_of("l2") if port.peer_node == "h3")
        self.applied(1)

    def _answers(self):
        import redis

        try:
            return self.config.ping()
        except redis.RedisError:
            return False

    def applied(self, generation):
        def is_so():
            row = self.state.hgetall("QCLIMB_STATUS|global")
            return row.get("applied_generation") == str(generation) and row.get("verified") == "seen"

        until(f"generation {generation} is seen in the ASIC", is_so)

    def alarm(self, priority):
        return self.state.hget(f"QCLIMB_CLASS_STATE|{priority}", "alarm")

    def share(self, queue, seconds=1):
        """Of the bytes of the urgent and the last queue towards h3 meanwhile; 0: nothing went out."""

        def counted():
            oids = [self.counters.hget("COUNTERS_QUEUE_NAME_MAP", f"{self.port}:{queue}") for queue in (7, 1)]
            return [int(self.counters.hget(f"COUNTERS:{oid}", "SAI_QUEUE_STAT_BYTES") or 0) for oid in oids]

        before = counted()
        time.sleep(seconds)
        grown = [now - then for now, then in zip(counted(), before, strict=True)]
        return grown[(7, 1).index(queue)] / max(1, sum(grown))

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait(DEADLINE_S)


@pytest.fixture
def guarded(links):
    found = Guarded(links)
    yield found
    found.close()


def test_a_host_that_marks_its_bulk_as_urgent_gets_an_alarm_and_with_a_limit_its_share(guarded):
    sink = Sink(guarded.links, "h3", URGENT)
    with bulk(guarded.links, "h1", sink, LAST, flows=2):
        assert not guarded.alarm(0)
        with bulk(guarded.links, "h2", sink, URGENT, flows=2):
            until("the alarm names the class", lambda: guarded.alarm(0))
            assert f"of {guarded.port}" in guarded.alarm(0) or "of Ethernet" in guarded.alarm(0)
            until("strict: the one who games takes all", lambda: guarded.share(7) > 0.8)
            guarded.config.hset("QCLIMB_CLASS|0", "max_share", "0.3")
            guarded.config.hset("QCLIMB|global", "generation", "2")
            guarded.applied(2)
            until("its limit leaves the others their part", lambda: guarded.share(1) > 0.55)
        until("the alarm ends with the cause", lambda: not guarded.alarm(0))
    sink.close()
