"""vasic over a real redis and the real queues: rows in, queues and counters out."""

import contextlib
import subprocess
import sys
import time

import pytest

from lab.control.plane import redis_socket
from lab.control.platform_rows import rows_of
from lab.control.vasic.asic import Asic
from lab.control.vasic.rows import CONFIG_DB, COUNTERS_DB, STATE_DB, connect, fingerprint, read
from lab.fabric import Fabric, Topology, guard
from lab.fabric.traffic import Sink, bulk, transfer
from tests.lab.fabric.conftest import why_not

pytestmark = pytest.mark.fabric

DEADLINE_S = 120


def until(what, ready):
    deadline = time.monotonic() + DEADLINE_S
    while not ready():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S} s"
        time.sleep(0.02)


@pytest.fixture(scope="module", params=["bpf", "u32"])
def switch(prefix_for, request):
    """Redis and vasic on l2, which host h3 hangs on; `u32`: as where BPF can't be loaded (the shared buffer stays)."""
    if reason := why_not():
        pytest.skip(reason)
    with Fabric(Topology(hosts_per_leaf=2), prefix=prefix_for(request.param)) as links:
        if request.param == "bpf" and links.shared_buffer is None:
            pytest.skip("no BPF on this machine")
        path = redis_socket(links, "l2")
        path.parent.mkdir(parents=True, exist_ok=True)
        argv = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", ""]
        redis_server = links.popen("l2", [*argv, "--notify-keyspace-events", "AKE"], stdout=subprocess.DEVNULL)
        config = connect(str(path), CONFIG_DB)
        until("redis answers", lambda: answers(config))
        for key, row in rows_of(links.topology, "l2", {}).items():
            config.hset(key, mapping=row)
        argv = [sys.executable, "-m", "lab.control.vasic", "--redis", str(path)]
        argv += ["--bpf", str(links.directory / "bpf")] if request.param == "bpf" else []
        if request.param == "u32":
            _without_bpf(links)
        vasic = links.popen("l2", argv, stderr=subprocess.PIPE)
        found = Switch(links, path, request.param)
        until("vasic follows", found.follows)
        yield found
        vasic.terminate()
        assert vasic.wait(DEADLINE_S) == 0, vasic.stderr.read()
        redis_server.terminate()
        redis_server.wait(DEADLINE_S)


def answers(config):
    import redis

    with contextlib.suppress(redis.RedisError):
        return config.ping()


def _without_bpf(links):
    from lab.fabric.commands import Tc, run_all
    from lab.fabric.queues import leaf_queues

    for port in links.topology.ports_of("l2"):
        run_all([Tc(links.netns("l2"), f"filter del dev {port.name} egress pref 100")])
        for parent, handle in leaf_queues(links.record.shaper):
            line = f"qdisc replace dev {port.name} parent {parent} handle {handle + 8:x}: bfifo limit 60000"
            run_all([Tc(links.netns("l2"), line)])


class Switch:
    def __init__(self, links, path, kind):
        self.links, self.kind = links, kind
        self.config, self.state, self.counters = (connect(str(path), db) for db in (CONFIG_DB, STATE_DB, COUNTERS_DB))
        self.port = next(port.name for port in links.topology.ports_of("l2") if port.peer_node == "h3")

    def follows(self):
        return self.state.hget("VASIC|global", "rows_hash") == fingerprint(read(self.config))

    def write(self, rows, delete=()):
        pipe = self.config.pipeline()
        for key in delete:
            pipe.delete(key)
        for key, row in rows.items():
            pipe.hset(key, mapping=row)
        pipe.execute()
        until("vasic follows", self.follows)

    def classify(self, name, queue_of):
        self.write(
            {
                f"DSCP_TO_TC_MAP|{name}": {str(dscp): str(queue) for dscp, queue in queue_of.items()},
                f"TC_TO_QUEUE_MAP|{name}": {str(queue): str(queue) for queue in range(8)},
                "SCHEDULER|sp": {"type": "STRICT"},
                f"QUEUE|{self.port}|0-7": {"scheduler": "sp"},
                f"PORT_QOS_MAP|{self.port}": {"dscp_to_tc_map": name, "tc_to_queue_map": name},
            }
        )

    def counted(self, queue, field="PACKETS"):
        oid = self.counters.hget("COUNTERS_QUEUE_NAME_MAP", f"{self.port}:{queue}")
        return int(self.counters.hget(f"COUNTERS:{oid}", f"SAI_QUEUE_STAT_{field}") or 0)

    def in_kernel(self):
        """Packets of each queue as vasic will count them next, and the bytes that wait in all of them."""
        bpf = self.links.directory / "bpf" if self.kind == "bpf" else None
        with self.links.entered("l2"):
            state = Asic(self.links.record.shaper, bpf).states([self.port])[self.port]
        return [queue.packets for queue in state.queue], sum(queue.queued_bytes for queue in state.queue)

    def settled(self):
        """Counters of all queues once they are the queues' own, which are empty."""
        found = []

        def still():
            found[:] = [self.counted(queue) for queue in range(8)]
            return self.in_kernel() == (found, 0)

        until("all is counted", still)
        return found


def test_packets_are_counted_in_the_queue_that_the_rows_name(switch):
    switch.classify("A", {47: 7, 39: 3})
    before = switch.settled()
    sink = Sink(switch.links, "h3", 47)
    for dscp, size in ((47, 20_000), (39, 40_000), (11, 60_000)):
        transfer(switch.links, "h1", sink, size, dscp)
    until("counters move", lambda: switch.counted(0) > before[0])
    grown = [now - then for now, then in zip(switch.settled(), before, strict=True)]
    assert grown[7] >= 14 and grown[3] >= 28 and grown[0] >= 42
    assert sum(grown) == grown[7] + grown[3] + grown[0]


def test_a_change_of_maps_moves_later_packets_and_loses_none(switch):
    switch.classify("A", {47: 7})
    sink = Sink(switch.links, "h3", 47)
    before = guard.Baseline(switch.links)
    with bulk(switch.links, "h1", sink, 47):
        for turn in range(6):
            switch.classify(f"B{turn}", {47: 1 + turn})
    transfer(switch.links, "h1", sink, 50_000, 47)
    settled = switch.settled()
    assert settled[6] >= 35, settled
    dropped = sum(switch.counted(queue, "DROPPED_PACKETS") for queue in range(8))
    assert dropped == 0
    lost = guard.judge(switch.links, before)
    assert next(check for check in lost.checks if check.name.startswith("losses")).ok


def test_without_rows_everything_goes_to_queue_0_again(switch):
    switch.classify("A", {47: 7})
    switch.config.delete(f"PORT_QOS_MAP|{switch.port}")
    until("vasic follows", switch.follows)
    before = switch.settled()
    transfer(switch.links, "h1", Sink(switch.links, "h3"), 20_000, 47)
    until("counters move", lambda: switch.counted(0) > before[0])
    grown = [now - then for now, then in zip(switch.settled(), before, strict=True)]
    assert grown[0] == sum(grown) >= 14


def test_a_bad_row_is_named_and_the_others_stay_in_force(switch):
    switch.classify("A", {47: 7})
    switch.write({"SCHEDULER|bad": {"type": "STRICT", "priority": "1"}})
    until("problem shown", lambda: "SCHEDULER|bad" in (switch.state.hget("VASIC|global", "problems") or ""))
    switch.config.delete("SCHEDULER|bad")
    until("problem gone", lambda: switch.state.hget("VASIC|global", "problems") == "")


def test_a_map_that_is_deleted_and_set_in_one_transaction_leaves_the_queues_as_they_were(switch):
    switch.classify("C", {47: 7})
    switch.write({"DSCP_TO_TC_MAP|C": {"47": "2"}}, delete=["DSCP_TO_TC_MAP|C"])
    assert "DSCP_TO_TC_MAP|C|DEL" in switch.state.hget("VASIC|global", "pending")
    before = switch.settled()
    transfer(switch.links, "h1", Sink(switch.links, "h3", 47), 20_000, 47)
    until("counters move", lambda: switch.counted(7) > before[7])
    assert switch.settled()[2] == before[2]


def test_what_orchagent_takes_and_the_queues_do_not_is_said(switch):
    switch.classify("A", {47: 7})
    switch.write({"SCHEDULER|w": {"type": "DWRR", "weight": "101"}, f"QUEUE|{switch.port}|0": {"scheduler": "w"}})
    until("problem shown", lambda: "weight is 101" in (switch.state.hget("VASIC|global", "problems") or ""))
    switch.write({f"QUEUE|{switch.port}|0": {"scheduler": "sp"}})
    until("problem gone", lambda: "weight" not in switch.state.hget("VASIC|global", "problems"))
