"""Random histories of rows: what holds after each, and what always works."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from qclimb.orchagent import blocking

from lab.control.vasic.machine.sai import NAMES, NULL
from lab.control.vasic.replay import Replay, Write

PORTS = ["Ethernet0", "Ethernet4"]
NAMED = st.sampled_from(["A", "B", "M"])
PORT = st.sampled_from(PORTS)
ENTRIES = st.dictionaries(st.sampled_from(["0", "8", "46"]), st.sampled_from(["0", "1", "7"]), min_size=1)
SPANS = st.sampled_from(["0", "1", "2", "0-2", "1-2"])
SCHEDULERS = st.sampled_from([{"type": "STRICT"}, {"type": "DWRR", "weight": "5"}, {"pir": "9"}, {"x": "y"}])
PROFILES = st.sampled_from([{"ecn": "ecn_none"}, {"wred_green_enable": "true", "green_max_threshold": "9"}])
MALFORMED = st.sampled_from(
    [
        ("DSCP_TO_TC_MAP|{}", {"NULL": "NULL"}),
        ("DSCP_TO_TC_MAP|{}", {"x": "1"}),
        ("SCHEDULER|{}", {"weight": "x"}),
        ("WRED_PROFILE|{}", {"ecn": "foo"}),
        ("BUFFER_PROFILE|{}", {"dynamic_th": "x"}),
    ]
)


class Histories(RuleBasedStateMachine):
    """Anybody's writes, well-formed and not, each a transaction."""

    @initialize()
    def begin(self):
        self.replay = Replay(PORTS)
        self.fresh = 0
        self.put("BUFFER_POOL|pool", {"type": "egress", "size": "1000000"})

    def put(self, key, row, drop=()):
        writes = [Write("CONFIG_DB", "HDEL", key, list(drop))] if drop else []
        self.replay.write([*writes, Write("CONFIG_DB", "HSET", key, row)])

    @rule(name=NAMED, entries=ENTRIES, both=st.booleans())
    def a_map_is_written_over_or_deleted_and_written(self, name, entries, both):
        key = f"DSCP_TO_TC_MAP|{name}"
        deletion = [Write("CONFIG_DB", "DEL", key)] if both else []
        self.replay.write([*deletion, Write("CONFIG_DB", "HSET", key, entries)])

    @rule(table=st.sampled_from(["DSCP_TO_TC_MAP", "SCHEDULER", "WRED_PROFILE", "BUFFER_PROFILE"]), name=NAMED)
    def a_row_that_others_may_name_is_deleted(self, table, name):
        self.replay.write([Write("CONFIG_DB", "DEL", f"{table}|{name}")])

    @rule(name=NAMED, row=SCHEDULERS)
    def a_scheduler_is_written(self, name, row):
        self.put(f"SCHEDULER|{name}", row)

    @rule(name=NAMED, row=PROFILES)
    def an_ecn_profile_is_written(self, name, row):
        self.put(f"WRED_PROFILE|{name}", row)

    @rule(name=NAMED, threshold=st.integers(-8, 8))
    def a_buffer_profile_is_written(self, name, threshold):
        self.put(f"BUFFER_PROFILE|{name}", {"pool": "pool", "size": "0", "dynamic_th": str(threshold)})

    @rule(port=PORT, name=NAMED)
    def a_port_is_bound(self, port, name):
        self.put(f"PORT_QOS_MAP|{port}", {"dscp_to_tc_map": name})

    @rule(port=PORT, span=SPANS, scheduler=NAMED, profile=st.none() | NAMED)
    def queues_are_bound(self, port, span, scheduler, profile):
        row = {"scheduler": scheduler} | ({"wred_profile": profile} if profile else {})
        self.put(f"QUEUE|{port}|{span}", row, drop=() if profile else ("wred_profile",))

    @rule(port=PORT, span=SPANS, name=NAMED)
    def buffers_are_bound(self, port, span, name):
        self.put(f"BUFFER_QUEUE|{port}|{span}", {"profile": name})

    @rule(table=st.sampled_from(["QUEUE", "BUFFER_QUEUE"]), port=PORT, span=SPANS)
    def queues_are_unbound(self, table, port, span):
        self.replay.write([Write("CONFIG_DB", "DEL", f"{table}|{port}|{span}")])

    @rule(malformed=MALFORMED, name=NAMED, comes=st.booleans())
    def a_malformed_row_comes_or_goes(self, malformed, name, comes):
        key, row = malformed
        op = "HSET" if comes else "DEL"
        self.replay.write([Write("CONFIG_DB", op, key.format(name), row if comes else ())])

    @rule(port=PORT, entries=ENTRIES)
    def a_fresh_name_arrives_unless_a_malformed_row_is_before_it(self, port, entries):
        """What always works: a fresh name, then the reference, whatever was parked under the old ones."""
        self.fresh += 1
        name = f"fresh{self.fresh}"
        self.put(f"DSCP_TO_TC_MAP|{name}", entries)
        self.put(f"PORT_QOS_MAP|{port}", {"dscp_to_tc_map": name})
        in_the_way = [key for key in self.rows("DSCP_TO_TC_MAP", blocking) if key < name]
        if not in_the_way and not any(each.startswith("DSCP_TO_TC_MAP|") for each in self.blocked()):
            found = self.replay.seen()["ports"][port]["dscp_to_tc"]
            assert found == {field: int(text) for field, text in entries.items()}

    def rows(self, table, read):
        prefix = f"{table}|"
        held = {key.removeprefix(prefix): row for key, row in self.replay.rows.items() if key.startswith(prefix)}
        return read(table, held)

    def blocked(self):
        """Rows that wait although nothing about them does: others are malformed."""
        return [key for key in self.replay.machine.pending() if key in self.replay.rows and "fresh" in key]

    @rule()
    def a_restart_leaves_nothing_parked_and_no_fewer_bindings_than_the_rows_name(self):
        rows = {key: dict(row) for key, row in self.replay.rows.items()}
        self.replay = Replay(PORTS)
        self.replay.write([Write("CONFIG_DB", "HSET", key, row) for key, row in rows.items()])
        assert not [key for key in self.replay.machine.pending() if key.endswith("|DEL")]

    @invariant()
    def every_object_that_is_named_is_there(self):
        objects = self.replay.machine.sai.objects
        there = {oid for rows in objects.values() for oid in rows}
        texts = [text for rows in objects.values() for row in rows.values() for text in row.values()]
        assert {oid for text in texts for oid in NAMES.findall(text)} - {NULL} <= there

    @invariant()
    def every_row_that_waits_is_in_config_db_or_is_a_deletion(self):
        names = {key.replace("BUFFER_", "", 1) for key in self.replay.rows}
        for key in self.replay.machine.pending():
            plain = key.replace("_TABLE:", "|").replace(":", "|").replace("BUFFER_", "", 1)
            assert key.endswith("|DEL") or plain in names


Histories.TestCase.settings = settings(max_examples=settings.default.max_examples // 4, stateful_step_count=30)
TestHistories = Histories.TestCase
