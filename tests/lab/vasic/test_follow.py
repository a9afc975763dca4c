"""The machine behind a real redis: the channels that it listens to, and the databases that it writes."""

import subprocess
import sys
import time

import pytest

from lab.control.vasic.follow import Follower
from lab.control.vasic.rows import APPL_DB, ASIC_DB, CONFIG_DB, COUNTERS_DB, STATE_DB, connect

PORTS = {f"PORT|Ethernet{number}": {"speed": "40000", "lanes": str(number)} for number in (0, 4)}


@pytest.fixture
def socket(tmp_path):
    path = tmp_path / "redis.sock"
    argv = ["redis-server", "--port", "0", "--unixsocket", str(path), "--dir", str(tmp_path), "--save", ""]
    server = subprocess.Popen([*argv, "--notify-keyspace-events", "AKE"], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield str(path)
    server.terminate()
    server.wait()


class Box:
    """A switch's databases with a follower."""

    def __init__(self, socket):
        names = {"appl": APPL_DB, "asic": ASIC_DB, "counters": COUNTERS_DB, "config": CONFIG_DB, "state": STATE_DB}
        for name, number in names.items():
            setattr(self, name, connect(socket, number))
        self.socket = socket
        for key, row in PORTS.items():
            self.config.hset(key, mapping=row)
        self.follower = Follower(socket)
        self.follower.start()

    def write(self, rows, delete=()):
        pipe = self.config.pipeline(transaction=True)
        for key in delete:
            pipe.delete(key)
        for key, row in rows.items():
            pipe.hset(key, mapping=row)
        pipe.execute()
        self.follow()

    def produce(self, table, key, row=None):
        """As ProducerStateTable does."""
        pipe = self.appl.pipeline(transaction=True)
        pipe.sadd(f"{table}_KEY_SET", key)
        if row is None:
            pipe.sadd(f"{table}_DEL_SET", key)
            pipe.delete(f"_{table}:{key}")
        else:
            pipe.hset(f"_{table}:{key}", mapping=row)
        pipe.publish(f"{table}_CHANNEL@0", "G")
        pipe.execute()
        self.follow()

    def follow(self):
        assert self.follower.wait(30)
        while True:
            self.follower.take()
            if not self.follower.wait(0.1):
                break
        self.follower.tell()

    def objects(self, kind):
        prefix = f"ASIC_STATE:SAI_OBJECT_TYPE_{kind}:"
        return {key.removeprefix(prefix): self.asic.hgetall(key) for key in self.asic.keys(f"{prefix}*")}


@pytest.fixture
def box(socket):
    return Box(socket)


def bound(box, port="Ethernet0"):
    oid = box.counters.hget("COUNTERS_PORT_NAME_MAP", port)
    return box.asic.hget(f"ASIC_STATE:SAI_OBJECT_TYPE_PORT:{oid}", "SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP")


def test_ports_and_queues_are_named_and_have_nothing_set_at_the_start(box):
    assert set(box.counters.hgetall("COUNTERS_PORT_NAME_MAP")) == {"Ethernet0", "Ethernet4"}
    names = box.counters.hgetall("COUNTERS_QUEUE_NAME_MAP")
    assert set(names) == {f"{port}:{queue}" for port in ("Ethernet0", "Ethernet4") for queue in range(8)}
    assert box.objects("QUEUE") == {oid: {"NULL": "NULL"} for oid in names.values()}
    assert box.counters.hget("COUNTERS_QUEUE_INDEX_MAP", names["Ethernet4:3"]) == "3"


def test_rows_become_objects_as_sai_spells_them(box):
    box.write(
        {
            "DSCP_TO_TC_MAP|M": {"8": "1"},
            "PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M"},
            "SCHEDULER|S": {"type": "STRICT"},
            "QUEUE|Ethernet0|3": {"scheduler": "S"},
        }
    )
    ((oid, row),) = box.objects("QOS_MAP").items()
    assert row["SAI_QOS_MAP_ATTR_TYPE"] == "SAI_QOS_MAP_TYPE_DSCP_TO_TC"
    assert '"dscp":8' in row["SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"]
    assert bound(box) == oid
    ((scheduler, row),) = box.objects("SCHEDULER").items()
    assert row == {"SAI_SCHEDULER_ATTR_SCHEDULING_TYPE": "SAI_SCHEDULING_TYPE_STRICT"}
    carrying = [row for row in box.objects("SCHEDULER_GROUP").values() if scheduler in row.values()]
    assert carrying == [{"NULL": "NULL", "SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID": scheduler}]


def test_a_referenced_row_that_is_deleted_and_set_in_one_transaction_never_arrives(box):
    box.write({"DSCP_TO_TC_MAP|M": {"8": "1"}, "PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M"}})
    before = box.objects("QOS_MAP")
    box.write({"DSCP_TO_TC_MAP|M": {"8": "5"}}, delete=["DSCP_TO_TC_MAP|M"])
    assert box.objects("QOS_MAP") == before
    assert sorted(box.follower.machine.pending()) == ["DSCP_TO_TC_MAP|M", "DSCP_TO_TC_MAP|M|DEL"]


def test_appl_db_is_taken_by_the_protocol_of_producer_state_tables(box):
    box.produce("ACL_TABLE_TYPE_TABLE", "STEER", {"matches": "DSCP", "actions": "PACKET_ACTION,COUNTER"})
    box.produce("ACL_TABLE_TABLE", "T1", {"type": "STEER", "stage": "ingress", "ports": "Ethernet0"})
    box.produce("ACL_RULE_TABLE", "T1:A", {"PRIORITY": "10", "DSCP": "8", "PACKET_ACTION": "DROP"})
    ((_, entry),) = box.objects("ACL_ENTRY").items()
    assert entry["SAI_ACL_ENTRY_ATTR_FIELD_DSCP"] == "8&mask:0x3f"
    assert box.state.hgetall("ACL_RULE_TABLE|T1|A") == {"status": "Active"}
    assert box.appl.hgetall("ACL_RULE_TABLE:T1:A")["DSCP"] == "8"
    box.produce("ACL_RULE_TABLE", "T1:A")
    assert box.objects("ACL_ENTRY") == {}
    assert not box.state.exists("ACL_RULE_TABLE|T1|A")
    assert not box.appl.exists("ACL_RULE_TABLE:T1:A")


def test_a_restart_reads_all_tables_anew(box):
    box.write({"DSCP_TO_TC_MAP|M": {"8": "1"}, "PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "M"}})
    box.write({"DSCP_TO_TC_MAP|M": {"8": "5"}}, delete=["DSCP_TO_TC_MAP|M"])
    again = Follower(box.socket)
    again.start()
    ((oid, row),) = box.objects("QOS_MAP").items()
    assert '"tc":5' in row["SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"]
    assert bound(box) == oid
    assert list(again.machine.pending()) == []


def test_a_port_that_comes_late_is_named_and_one_that_goes_is_not(box):
    box.write({"PORT|Ethernet8": {"speed": "40000"}})
    assert "Ethernet8" in box.counters.hgetall("COUNTERS_PORT_NAME_MAP")
    oid = box.counters.hget("COUNTERS_QUEUE_NAME_MAP", "Ethernet8:0")
    box.write({}, delete=["PORT|Ethernet8"])
    assert "Ethernet8" not in box.counters.hgetall("COUNTERS_PORT_NAME_MAP")
    assert oid not in box.objects("QUEUE")


def test_the_command_follows_without_queues_below_it(box):
    argv = [sys.executable, "-m", "lab.control.vasic", "--redis", box.socket, "--no-queues"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        box.config.hset("SCHEDULER|bad", mapping={"type": "STRICT", "priority": "1"})
        while "SCHEDULER|bad" not in (box.state.hget("VASIC|global", "problems") or ""):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.terminate()
        assert process.wait(60) == 0, process.stderr.read()
