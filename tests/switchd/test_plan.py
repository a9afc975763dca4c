"""plan() over tables of rows, and as a property: on any switch it holds, is done at once, and can be taken back."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb.intent import PathWeights, QueueClass, SwitchIntent

from switchd.plan import Refused, plan
from switchd.rows import Change, Delete, Merge, Put, Rows, applied
from switchd.wanted import BUFFER_FIELDS, OBJECT_TABLES, PORT_FIELDS, PREVIOUS, QUEUE_FIELDS, is_own


def classes(*queues: int) -> tuple[QueueClass, ...]:
    return tuple(QueueClass(p, 47 - 4 * p, queue) for p, queue in enumerate(queues))


def intent(*queues: int, generation: int = 1, **more: Any) -> SwitchIntent:
    return SwitchIntent(generation, "enabled", classes(*queues), **more)


BARE: Rows = {"PORT": {"Ethernet0": {"speed": "25000"}, "Ethernet4": {"speed": "25000"}}}
AZURE_TC = {str(d): {3: "3", 4: "4", 5: "2", 8: "0", 46: "5", 48: "6"}.get(d, "1") for d in range(64)}
AZURE: Rows = {
    **BARE,
    "DSCP_TO_TC_MAP": {"AZURE": AZURE_TC},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(n): str(n) for n in range(8)}},
    "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}},
    "WRED_PROFILE": {"AZURE_LOSSLESS": {"ecn": "ecn_all"}},
    "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": {str(n): str(n) for n in range(8)}},
    "PORT_QOS_MAP": {
        port: {
            "dscp_to_tc_map": "AZURE",
            "tc_to_queue_map": "AZURE",
            "tc_to_pg_map": "AZURE",
            "pfc_to_queue_map": "AZURE",
            "pfc_enable": "3,4",
        }
        for port in BARE["PORT"]
    },
    "QUEUE": {
        f"{port}|{queue}": {
            "scheduler": "scheduler.0",
            **({"wred_profile": "AZURE_LOSSLESS"} if queue in (3, 4) else {}),
        }
        for port in BARE["PORT"]
        for queue in range(7)
    },
}
FREE = (7, 5, 2, 1, 0)
"""queues of AZURE without PFC and without DSCP 48"""


def queue_of(rows: Rows, port: str, dscp: int) -> str:
    """Where a packet goes, read as orchagent would; TC 0 and queue 0 without a map."""
    refs = rows.get("PORT_QOS_MAP", {}).get(port, {})
    tc = rows.get("DSCP_TO_TC_MAP", {}).get(refs.get("dscp_to_tc_map", ""), {}).get(str(dscp), "0")
    return rows.get("TC_TO_QUEUE_MAP", {}).get(refs.get("tc_to_queue_map", ""), {}).get(tc, "0")


def test_each_class_goes_to_its_queue_and_every_queue_is_strict() -> None:
    after = applied(BARE, plan(intent(7, 6, 5, 4, 3, 2, 1, 0), BARE))
    for port in BARE["PORT"]:
        assert [queue_of(after, port, 47 - 4 * p) for p in range(8)] == ["7", "6", "5", "4", "3", "2", "1", "0"]
        for queue in range(8):
            assert after["SCHEDULER"][after["QUEUE"][f"{port}|{queue}"]["scheduler"]] == {"type": "STRICT"}
    (tc_map,) = after["DSCP_TO_TC_MAP"].values()
    assert sorted(tc_map, key=int) == [str(dscp) for dscp in range(64)]


def test_dscps_that_are_not_ours_keep_their_queue_and_pfc_stays() -> None:
    wanted = intent(*FREE)
    after = applied(AZURE, plan(wanted, AZURE))
    ours = {one.dscp for one in wanted.classes}
    for port in AZURE["PORT"]:
        for dscp in set(range(64)) - ours:
            assert queue_of(after, port, dscp) == queue_of(AZURE, port, dscp), dscp
        assert [queue_of(after, port, one.dscp) for one in wanted.classes] == [str(q) for q in FREE]
        refs = after["PORT_QOS_MAP"][port]
        assert (refs["pfc_enable"], refs["tc_to_pg_map"], refs["pfc_to_queue_map"]) == ("3,4", "AZURE", "AZURE")
        assert after["QUEUE"][f"{port}|3"] == AZURE["QUEUE"][f"{port}|3"]
    assert after["DSCP_TO_TC_MAP"]["AZURE"] == AZURE_TC


def test_a_disabled_intent_gives_back_what_was_there() -> None:
    on = applied(AZURE, plan(intent(*FREE, ecn_min_bytes=1000, ecn_max_bytes=2000), AZURE))
    assert on[PREVIOUS]["Ethernet0"] == {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"}
    assert on[PREVIOUS]["Ethernet0|7"] == {"NULL": "NULL"}
    for off in (SwitchIntent(2, "disabled", classes(*FREE)), None):
        assert applied(on, plan(off, on)) == AZURE


LOSSY = {"pool": "egress_lossy_pool", "size": "1518", "dynamic_th": "3"}
BUFFERED: Rows = {
    **AZURE,
    "BUFFER_PROFILE": {"lossy": LOSSY, "lossless": {"pool": "egress_lossless_pool", "size": "0", "static_th": "9000"}},
    "BUFFER_QUEUE": {
        f"{port}|{queue}": {"profile": "lossless" if queue in (3, 4) else "lossy"}
        for port in BARE["PORT"]
        for queue in range(8)
    },
}


def profile_of(rows: Rows, queue: int | str, port: str = "Ethernet0") -> dict[str, str]:
    return rows["BUFFER_PROFILE"][rows["BUFFER_QUEUE"][f"{port}|{queue}"]["profile"]]


def narrowed(wanted: SwitchIntent | None, rows: Rows) -> tuple[Change, ...]:
    return plan(wanted, rows, narrow_buffers=True)


def test_queues_before_the_last_may_hold_as_much_as_is_free_and_the_last_what_it_could() -> None:
    after = applied(BUFFERED, narrowed(intent(*FREE), BUFFERED))
    for port in BARE["PORT"]:
        for queue in FREE[:-1]:
            assert profile_of(after, queue, port) == {**LOSSY, "dynamic_th": "0"}
        for queue in {*range(8)} - {*FREE[:-1]}:
            assert after["BUFFER_QUEUE"][f"{port}|{queue}"] == BUFFERED["BUFFER_QUEUE"][f"{port}|{queue}"]
    assert after["BUFFER_PROFILE"].items() >= BUFFERED["BUFFER_PROFILE"].items()
    assert narrowed(intent(*FREE), after) == ()
    assert applied(after, narrowed(None, after)) == BUFFERED


def test_the_last_queue_follows_the_intent() -> None:
    before = applied(BUFFERED, narrowed(intent(7, 5, 2), BUFFERED))
    after = applied(before, narrowed(intent(7, 5), before))
    assert (profile_of(before, 5), profile_of(before, 2)) == ({**LOSSY, "dynamic_th": "0"}, LOSSY)
    assert (profile_of(after, 7), profile_of(after, 5)) == ({**LOSSY, "dynamic_th": "0"}, LOSSY)
    assert applied(after, narrowed(None, after)) == BUFFERED


def test_a_class_alone_is_the_last_and_keeps_its_buffer() -> None:
    assert not any(change.table.startswith("BUFFER") for change in narrowed(intent(7), BUFFERED))


def test_buffers_are_the_platforms_unless_told_and_given_back_when_told_no_more() -> None:
    on = applied(BUFFERED, narrowed(intent(*FREE), BUFFERED))
    assert not any(change.table.startswith("BUFFER") for change in plan(intent(*FREE), BUFFERED))
    kept = applied(on, plan(intent(*FREE), on))
    assert (kept["BUFFER_QUEUE"], kept["BUFFER_PROFILE"]) == (BUFFERED["BUFFER_QUEUE"], BUFFERED["BUFFER_PROFILE"])
    assert kept["QUEUE"] == on["QUEUE"]


def test_another_profile_of_the_platforms_is_followed_and_given_back() -> None:
    on = applied(BUFFERED, narrowed(intent(*FREE), BUFFERED))
    on["BUFFER_PROFILE"]["lossy"] = {**LOSSY, "size": "3036"}
    again = applied(on, narrowed(intent(*FREE), on))
    assert profile_of(again, 7) == {**LOSSY, "size": "3036", "dynamic_th": "0"}
    assert sum(is_own(name) for name in again["BUFFER_PROFILE"]) == 1
    assert profile_of(applied(again, narrowed(None, again)), 7) == {**LOSSY, "size": "3036"}


@pytest.mark.parametrize(
    ("span", "threshold"),
    [("0-2", "3"), ("5-7", "3"), ("7-5", "3"), ("7", "0"), ("7", "-2"), ("7", ""), ("7", "x"), ("x", "3")],
)
def test_a_buffer_row_that_is_no_matter_of_ours_is_left_alone(span: str, threshold: str) -> None:
    """Rows that cover other queues, too, thresholds no wider than ours, and what can't be read."""
    rows = {
        **BUFFERED,
        "BUFFER_PROFILE": {"lossy": {**LOSSY, "dynamic_th": threshold}},
        "BUFFER_QUEUE": {f"Ethernet0|{span}": {"profile": "lossy"}, "Ethernet0,Ethernet4|7": {"profile": "lossy"}},
    }
    assert not any(change.table.startswith("BUFFER") for change in narrowed(intent(*FREE), rows))


def test_a_range_of_queues_before_the_last_is_one_row() -> None:
    rows = {**BUFFERED, "BUFFER_QUEUE": {"Ethernet0|1-2": {"profile": "lossy"}}}
    assert profile_of(applied(rows, narrowed(intent(*FREE), rows)), "1-2") == {**LOSSY, "dynamic_th": "0"}


def test_a_previous_map_that_is_gone_is_not_restored() -> None:
    on = applied(AZURE, plan(intent(*FREE), AZURE))
    del on["DSCP_TO_TC_MAP"]["AZURE"]
    off = applied(on, plan(None, on))
    assert "dscp_to_tc_map" not in off["PORT_QOS_MAP"]["Ethernet0"]
    assert off["PORT_QOS_MAP"]["Ethernet0"]["tc_to_queue_map"] == "AZURE"


def test_a_changed_map_has_a_new_name_and_the_old_one_goes_last() -> None:
    on = applied(BARE, plan(intent(7, 6), BARE))
    changes = plan(intent(7, 5), on)
    kinds = [(type(change).__name__, change.table) for change in changes]
    created = [i for i, change in enumerate(changes) if isinstance(change, Put) and change.table in OBJECT_TABLES]
    referred = [i for i, change in enumerate(changes) if isinstance(change, Merge)]
    deleted = [i for i, change in enumerate(changes) if isinstance(change, Delete) and change.table in OBJECT_TABLES]
    assert created and referred and deleted, kinds
    assert max(created) < min(referred) <= max(referred) < min(deleted), kinds
    for i in created:
        change = changes[i]
        assert change.key not in on.get(change.table, {})  # nothing replaced in place


def test_only_fields_of_ours_are_touched_in_rows_that_are_not_ours() -> None:
    for change in plan(intent(*FREE), AZURE):
        if change.table in ("PORT_QOS_MAP", "QUEUE"):
            assert isinstance(change, Merge)
            assert change.fields.keys() <= {"dscp_to_tc_map", "tc_to_queue_map", "scheduler", "wred_profile"}
        else:
            assert change.table == PREVIOUS or is_own(change.key)


def test_dropped_tables_come_back() -> None:
    on = applied(BARE, plan(intent(7, 6, 5), BARE))
    cleared = {
        t: e
        for t, e in on.items()
        if t not in ("PORT_QOS_MAP", "QUEUE", "SCHEDULER", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP")
    }
    assert applied(cleared, plan(intent(7, 6, 5), cleared)) == on


def test_references_that_somebody_set_meanwhile_are_the_ones_to_give_back() -> None:
    on = applied(AZURE, plan(intent(*FREE), AZURE))
    on["DSCP_TO_TC_MAP"]["NEW"] = dict(AZURE_TC)
    on["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] = "NEW"
    again = applied(on, plan(intent(*FREE), on))
    assert again[PREVIOUS]["Ethernet0"]["dscp_to_tc_map"] == "NEW"
    assert is_own(again["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"])
    assert applied(again, plan(None, again))["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] == "NEW"


def test_a_range_of_granted_queues_is_used_as_it_stands() -> None:
    rows = {**BARE, "QUEUE": {"Ethernet0|5-7": {"scheduler": "scheduler.0"}}}
    after = applied(rows, plan(intent(7, 6, 5), rows))
    assert set(after["QUEUE"]) == {"Ethernet0|5-7", "Ethernet4|5", "Ethernet4|6", "Ethernet4|7"}
    assert "scheduler" not in applied(after, plan(None, after)).get("QUEUE", {}).get("Ethernet0|5-7", {})


def test_ecn_limits_mark_all_three_colours() -> None:
    after = applied(BARE, plan(intent(7, 6, ecn_min_bytes=30_000, ecn_max_bytes=60_000), BARE))
    ((name, row),) = after["WRED_PROFILE"].items()
    assert after["QUEUE"]["Ethernet4|6"]["wred_profile"] == name
    for colour in ("green", "yellow", "red"):
        assert row[f"{colour}_min_threshold"] == "30000"
        assert row[f"{colour}_max_threshold"] == "60000"
        assert row[f"wred_{colour}_enable"] == "true"


def test_named_ports_are_the_only_ones_touched() -> None:
    after = applied(BARE, plan(intent(7, 6, ports=("Ethernet4",)), BARE))
    assert set(after["PORT_QOS_MAP"]) == {"Ethernet4"}
    assert set(after["QUEUE"]) == {"Ethernet4|7", "Ethernet4|6"}


def with_(rows: Rows, table: str, key: str, **fields: str) -> Rows:
    return applied(rows, [Merge(table, key, fields)])


EVERY_TC = {str(dscp): str(dscp % 8) for dscp in range(64)}
NONE_TO_SEVEN = {str(tc): str(min(tc, 6)) for tc in range(8)}
ALL_USED = applied(AZURE, [Put("DSCP_TO_TC_MAP", "AZURE", EVERY_TC), Put("TC_TO_QUEUE_MAP", "AZURE", NONE_TO_SEVEN)])

REFUSED: dict[str, tuple[SwitchIntent, Rows, str]] = {
    "a queue with PFC": (intent(7, 4), AZURE, "queue 4 has PFC"),
    "PFC by its own queue map": (
        intent(7, 2),
        with_(AZURE, "MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", **{"3": "2"}),
        "queue 2 has PFC",
    ),
    "the queue of DSCP 48": (intent(7, 6), AZURE, "queue 6 carries DSCP 48"),
    "DSCP 48 as a class": (
        SwitchIntent(1, "enabled", (QueueClass(0, 48, 7),)),
        BARE,
        "DSCP 48 carries routing protocols",
    ),
    "a path through a spine": (
        SwitchIntent(1, "enabled", (QueueClass(0, 47, 7, path="s1"),)),
        BARE,
        "class 0: path 's1' needs a path backend",
    ),
    "weights of paths": (intent(7, path_weights=PathWeights({"s1": 1.0})), BARE, "weights need a path backend"),
    "a port that is not there": (intent(7, ports=("Ethernet99",)), BARE, "port 'Ethernet99' is not in the table PORT"),
    "a range across granted and other queues": (
        intent(7, 6),
        with_(BARE, "QUEUE", "Ethernet0|5-6", scheduler="x"),
        "QUEUE|Ethernet0|5-6 covers granted and other queues",
    ),
    "a row for several ports": (
        intent(7, 6),
        with_(BARE, "QUEUE", "Ethernet0,Ethernet4|7", scheduler="x"),
        "QUEUE|Ethernet0,Ethernet4|7 covers",
    ),
    "a map that is no map": (
        intent(7, 5),
        with_(AZURE, "DSCP_TO_TC_MAP", "AZURE", **{"9": "x"}),
        "DSCP_TO_TC_MAP|AZURE: a map row holds numbers only",
    ),
    "no traffic class left": (
        intent(7),
        ALL_USED,
        "no traffic class is left for queue 7",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses_with_the_reason(case: str) -> None:
    wanted, rows, reason = REFUSED[case]
    with pytest.raises(Refused) as error:
        plan(wanted, rows)
    assert reason in str(error.value)


# any switch

NAMES = st.sampled_from(["AZURE", "OTHER"])
PORTS = ["Ethernet0", "Ethernet4", "Ethernet8"]


def maybe(**fields: "st.SearchStrategy[str]") -> "st.SearchStrategy[dict[str, str]]":
    return st.fixed_dictionaries({}, optional=fields)


TC = st.integers(0, 7).map(str)
SWITCHES = st.fixed_dictionaries(
    {
        "PORT": st.just({port: {"speed": "25000"} for port in PORTS}),
        "DSCP_TO_TC_MAP": st.dictionaries(NAMES, st.dictionaries(st.integers(0, 63).map(str), TC, min_size=1)),
        "TC_TO_QUEUE_MAP": st.dictionaries(NAMES, st.dictionaries(TC, TC, min_size=1)),
        "SCHEDULER": st.dictionaries(NAMES, st.just({"type": "DWRR", "weight": "1"})),
        "PORT_QOS_MAP": st.dictionaries(
            st.sampled_from([*PORTS, "global"]),
            maybe(dscp_to_tc_map=NAMES, tc_to_queue_map=NAMES, pfc_enable=st.sampled_from(["", "3", "3,4"])).filter(
                bool
            ),
        ),
        "QUEUE": st.dictionaries(
            st.tuples(st.sampled_from(PORTS), st.sampled_from("01234567")).map("|".join),
            maybe(scheduler=NAMES, wred_profile=NAMES).filter(bool),
        ),
        "BUFFER_PROFILE": st.dictionaries(NAMES, maybe(dynamic_th=st.sampled_from(["3", "1", "0", "-2"])).filter(bool)),
        "BUFFER_QUEUE": st.dictionaries(
            st.tuples(st.sampled_from(PORTS), st.sampled_from(["0", "3", "4", "5", "6", "7", "1-2", "5-6"])).map(
                "|".join
            ),
            maybe(profile=NAMES).filter(bool),
        ),
    }
).map(lambda rows: {table: entries for table, entries in rows.items() if entries})

INTENTS = st.one_of(
    st.none(),
    st.builds(
        lambda queues, ports, ecn, dscps: SwitchIntent(
            1,
            "enabled",
            tuple(
                QueueClass(p, d, q) for p, (q, d) in enumerate(zip(sorted(queues, reverse=True), dscps, strict=False))
            ),
            ports=tuple(sorted(ports)),
            ecn_min_bytes=ecn,
            ecn_max_bytes=ecn and 2 * ecn,
        ),
        st.sets(st.integers(0, 7), min_size=1),
        st.sets(st.sampled_from(PORTS)),
        st.one_of(st.none(), st.integers(1, 10**6)),
        st.permutations([d for d in range(64) if d != 48]),
    ),
)


TARGET = {**PORT_FIELDS, **QUEUE_FIELDS, **BUFFER_FIELDS}
REFERRING = ("QUEUE", "BUFFER_QUEUE", "PORT_QOS_MAP")


def dangling(rows: Rows) -> set[str]:
    """References of ours to objects that are not there."""
    return {
        row[field]
        for table in REFERRING
        for row in rows.get(table, {}).values()
        for field, target in TARGET.items()
        if is_own(row.get(field, "")) and row[field] not in rows.get(target, {})
    }


def tried(wanted: SwitchIntent | None, rows: Rows) -> Rows:
    """The rows after the plan, checked at every step; a refused plan changes nothing."""
    try:
        changes = plan(wanted, rows, narrow_buffers=True)
    except Refused:
        return rows
    for count in range(len(changes) + 1):
        assert not dangling(applied(rows, changes[:count])), changes[count - 1]
    after = applied(rows, changes)
    assert plan(wanted, after, narrow_buffers=True) == ()
    return after


@settings(max_examples=150, deadline=None)
@given(SWITCHES, st.lists(INTENTS, min_size=1, max_size=3))
def test_any_sequence_of_intents_holds_and_can_be_taken_back(before: Rows, intents: list[SwitchIntent | None]) -> None:
    rows = before
    for wanted in intents:
        rows = tried(wanted, rows)
    without = applied(rows, plan(None, rows))
    assert {t: e for t, e in without.items() if t not in REFERRING} == {
        t: e for t, e in before.items() if t not in REFERRING
    }
    for table in REFERRING:
        existing = {key: restorable(row, before) for key, row in before.get(table, {}).items()}
        got = {key: restorable(row, before) for key, row in without.get(table, {}).items()}
        assert {k: v for k, v in got.items() if v} == {k: v for k, v in existing.items() if v}


def restorable(row: dict[str, str], rows: Rows) -> dict[str, str]:
    """A row less the references that dangled from the start: those are not given back."""
    return {f: v for f, v in row.items() if f not in TARGET or v in rows.get(TARGET[f], {})}


@settings(max_examples=100, deadline=None)
@given(SWITCHES, INTENTS)
def test_on_any_switch_classes_get_their_queue_and_the_others_keep_theirs(
    before: Rows, wanted: SwitchIntent | None
) -> None:
    after = tried(wanted, before)
    if wanted is None or after == before:
        return
    ours = {one.dscp: str(one.queue) for one in wanted.classes}
    for port in wanted.ports or PORTS:
        row = before.get("PORT_QOS_MAP", {}).get(port, {})
        if row.get("dscp_to_tc_map") not in before.get("DSCP_TO_TC_MAP", {}):
            continue  # the switch-level map counts then, see wanted.py
        for dscp in range(64):
            expected = ours.get(dscp, queue_of(before, port, dscp))
            assert queue_of(after, port, dscp) == expected, (port, dscp)
