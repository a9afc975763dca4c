"""plan() over tables of rows."""

from dataclasses import replace

import pytest
from qclimb.intent import SwitchIntent
from qclimb.orchagent import REFERENCES

from switchd.plan import LETTER, OBJECT_TABLES, Bound, Refused
from switchd.plan import plan as whole_plan
from switchd.previous import PREVIOUS, is_own
from switchd.rows import Change, Delete, Merge, Put, Rows, applied
from tests.switchd.platforms import (
    AZURE,
    AZURE_TC,
    BARE,
    BUFFERED,
    FREE,
    LOSSY,
    classes,
    intent,
    narrow,
    plan,
    queue_of,
    with_,
)


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


def profile_of(rows: Rows, queue: int | str, port: str = "Ethernet0") -> dict[str, str]:
    return rows["BUFFER_PROFILE"][rows["BUFFER_QUEUE"][f"{port}|{queue}"]["profile"]]


def narrowed(wanted: SwitchIntent | None, rows: Rows) -> tuple[Change, ...]:
    return plan(wanted and narrow(wanted), rows)


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
    [("0-2", "3"), ("5-7", "3"), ("7-5", "3"), ("7", "0"), ("7", ""), ("7", "x"), ("x", "3")],
)
def test_a_buffer_row_that_is_no_matter_of_ours_is_left_alone(span: str, threshold: str) -> None:
    """Rows that cover other queues, too, the wanted threshold, and what can't be read; and that is said."""
    rows = {
        **BUFFERED,
        "BUFFER_PROFILE": {"lossy": {**LOSSY, "dynamic_th": threshold}},
        "BUFFER_QUEUE": {f"Ethernet0|{span}": {"profile": "lossy"}, "Ethernet0,Ethernet4|0-7": {"profile": "lossy"}},
    }
    planned = whole_plan(narrow(intent(*FREE)), rows)
    assert not any(change.table.startswith("BUFFER") for change in planned.changes)
    assert planned.unshared.keys() == {"Ethernet0", "Ethernet4"} and not planned.refused
    assert "BUFFER_QUEUE|" in planned.unshared["Ethernet0"] or "covers queue" in planned.unshared["Ethernet0"]


def test_each_class_has_the_share_that_it_asks_for_wider_or_narrower() -> None:
    shares = dict(zip(FREE, (-8, 7, 3, None, 1, 0), strict=False))
    wanted = SwitchIntent(1, "enabled", tuple(replace(one, dynamic_th=shares[one.queue]) for one in classes(*FREE)))
    planned = whole_plan(wanted, BUFFERED)
    after = applied(BUFFERED, planned.changes)
    for queue, share in shares.items():
        assert profile_of(after, queue) == (LOSSY if share is None else {**LOSSY, "dynamic_th": str(share)})
    assert planned.unshared == {}
    assert applied(after, plan(None, after)) == BUFFERED


def test_a_range_of_queues_before_the_last_is_one_row() -> None:
    rows = {**BUFFERED, "BUFFER_QUEUE": {f"Ethernet0|{span}": {"profile": "lossy"} for span in ("0", "1-2", "3-7")}}
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
    assert applied(after, plan(None, after))["QUEUE"] == rows["QUEUE"]


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


# memory lost


def forgotten(rows: Rows) -> Rows:
    """What uninstalling the package leaves: no table of ours, all references."""
    return {table: entries for table, entries in rows.items() if table != PREVIOUS}


def test_without_a_memory_the_platforms_defaults_come_back() -> None:
    on = forgotten(applied(BUFFERED, narrowed(intent(*FREE, ecn_min_bytes=1000, ecn_max_bytes=2000), BUFFERED)))
    after = applied(on, plan(None, on))
    before = applied(BUFFERED, [Merge("QUEUE", f"{port}|7", {"scheduler": "scheduler.0"}) for port in BARE["PORT"]])
    assert after == before  # queue 7 had no row; the templates give lossy queues scheduler.0


def test_an_intent_over_references_that_nobody_remembers_finds_the_platforms_maps_below() -> None:
    on = forgotten(applied(AZURE, plan(intent(*FREE), AZURE)))
    after = applied(on, plan(intent(*FREE), on))
    assert after[PREVIOUS]["Ethernet0"] == {"dscp_to_tc_map": "AZURE", "tc_to_queue_map": "AZURE"}
    assert after["PORT_QOS_MAP"] == on["PORT_QOS_MAP"]


def test_what_other_ports_have_in_the_same_place_is_the_default() -> None:
    rows = applied(AZURE, [Put("DSCP_TO_TC_MAP", "SITE", AZURE_TC), Put("SCHEDULER", "site", {"type": "DWRR"})])
    for port in BARE["PORT"]:
        theirs = [
            Merge("PORT_QOS_MAP", port, {"dscp_to_tc_map": "SITE"}),
            Merge("QUEUE", f"{port}|5", {"scheduler": "site"}),
        ]
        rows = applied(rows, theirs)
    on = applied(rows, plan(intent(7, 5, ports=("Ethernet0",)), rows))
    after = applied(forgotten(on), plan(None, forgotten(on)))
    assert after["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] == "SITE"
    assert after["QUEUE"]["Ethernet0|5"]["scheduler"] == "site"


@pytest.mark.parametrize("wanted", [None, intent(*FREE)])
def test_what_nobody_can_tell_is_said_and_left(wanted: SwitchIntent | None) -> None:
    on = forgotten(applied(AZURE, plan(intent(*FREE), AZURE)))
    tables = {**on["DSCP_TO_TC_MAP"], "ONE": AZURE_TC, "TWO": AZURE_TC}
    on["DSCP_TO_TC_MAP"] = {name: row for name, row in tables.items() if name != "AZURE"}
    if wanted is None:
        planned = whole_plan(None, on)
        assert planned.changes == ()
        found = planned.refused
    else:
        with pytest.raises(Refused) as error:
            plan(wanted, on)
        found = dict(error.value.ports)
    assert set(found) == {"Ethernet0", "Ethernet4"}
    assert "nobody remembers" in found["Ethernet0"] and "ONE, TWO" in found["Ethernet0"]


def bracketed(rows: Rows) -> Rows:
    """The rows with references as SONiC had them before 2021."""

    def one(table: str, row: dict[str, str]) -> dict[str, str]:
        return {f: f"[{t}|{v}]" if (t := REFERENCES[table].get(f)) else v for f, v in row.items()}

    return {t: {k: one(t, row) if t in REFERENCES else row for k, row in of.items()} for t, of in rows.items()}


@pytest.mark.parametrize("plain", [AZURE, BUFFERED], ids=["AZURE", "BUFFERED"])
def test_references_in_brackets_mean_what_plain_ones_do_and_are_given_back_as_they_were(plain: Rows) -> None:
    rows, wanted = bracketed(plain), narrow(intent(*FREE))
    first, second = whole_plan(wanted, plain), whole_plan(wanted, rows)
    of_plain, after = applied(plain, first.changes), applied(rows, second.changes)
    assert (first.warning, first.unshared) == (second.warning, second.unshared)
    for port in BARE["PORT"]:
        assert [queue_of(after, port, dscp) for dscp in range(64)] == [queue_of(of_plain, port, d) for d in range(64)]
    assert {n: row for n, row in after.get("BUFFER_PROFILE", {}).items() if is_own(n)} == {
        n: row for n, row in of_plain.get("BUFFER_PROFILE", {}).items() if is_own(n)
    }
    assert plan(wanted, after) == ()
    assert applied(after, plan(None, after)) == rows


@pytest.mark.parametrize("name", ["GONE", "[DSCP_TO_TC_MAP|GONE]", "[TC_TO_QUEUE_MAP|AZURE]", "a:b"])
def test_a_name_that_dangles_is_told_and_given_back_when_ours_is_gone_from_the_asic(name: str) -> None:
    rows = with_(AZURE, "PORT_QOS_MAP", "Ethernet0", dscp_to_tc_map=name)
    planned = whole_plan(intent(7, 5), rows)
    assert f"PORT_QOS_MAP|Ethernet0 dscp_to_tc_map was {name!r}" in planned.warning
    after = applied(rows, planned.changes)
    assert not whole_plan(intent(7, 5), after).changes
    assert name in whole_plan(intent(7, 5), after).warning, "the memory has it, too"
    first, second = whole_plan(None, after).transactions
    between = applied(after, first)
    assert "dscp_to_tc_map" not in between["PORT_QOS_MAP"]["Ethernet0"], "orchagent would keep ours"
    maps = {one for one in after["DSCP_TO_TC_MAP"] if is_own(one)}
    assert not whole_plan(None, between, Bound(held=maps)).transactions[0][0].table.startswith("PORT_QOS_MAP")
    assert applied(between, second) == rows


def test_a_name_that_dangled_and_has_a_row_meanwhile_is_given_back_at_once() -> None:
    rows = with_(AZURE, "PORT_QOS_MAP", "Ethernet0", dscp_to_tc_map="LATE")
    after = applied(rows, [*plan(intent(7, 5), rows), Put("DSCP_TO_TC_MAP", "LATE", {"0": "1"})])
    after = applied(after, plan(intent(7, 5), after))
    assert queue_of(after, "Ethernet0", 0) == "1"
    (first, _) = whole_plan(None, after).transactions
    assert applied(after, first)["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] == "LATE"


def test_a_row_that_went_while_ours_stood_is_not_referred_to_again() -> None:
    after = applied(AZURE, [*plan(intent(7, 5), AZURE), Delete("DSCP_TO_TC_MAP", "AZURE")])
    assert "dscp_to_tc_map" not in applied(after, plan(None, after))["PORT_QOS_MAP"]["Ethernet0"]


# names


def test_a_row_of_ours_that_differs_is_left_for_a_fresh_name() -> None:
    """orchagent keeps old values of a scheduler repaired in place, and parks the DEL of what is referred to."""
    on = applied(AZURE, plan(intent(*FREE), AZURE))
    (edited,) = [name for name in on["SCHEDULER"] if is_own(name)]
    on["SCHEDULER"][edited]["pir"] = "5"
    first, second = whole_plan(intent(*FREE), on, tag="1").transactions
    (made,) = [change for change in first if isinstance(change, Put)]
    assert made.table == "SCHEDULER" and made.key != edited and made.row == {"type": "STRICT"}
    moved = [change for change in first if isinstance(change, Merge)]
    assert {change.fields["scheduler"] for change in moved} == {made.key}
    assert len(moved) == len(FREE) * 2
    assert second == (Delete("SCHEDULER", edited),)


def test_a_name_that_the_asic_may_refer_to_is_neither_deleted_nor_written() -> None:
    on = applied(BARE, plan(intent(7, 6), BARE))
    old = {name for table in OBJECT_TABLES for name in on.get(table, {})}
    after = applied(on, plan(intent(7, 5), on, bound=Bound(held=old)))
    assert old <= {name for table in OBJECT_TABLES for name in after.get(table, {})}
    gone = applied(after, plan(intent(7, 5), after))
    back = whole_plan(intent(7, 6), gone, bound=Bound(held=old)).transactions[0]
    assert not {change.key for change in back if change.table in OBJECT_TABLES} & old


def test_a_name_whose_object_is_not_what_it_says_is_left() -> None:
    on = applied(BARE, plan(intent(7, 6), BARE))
    (spoiled,) = on["SCHEDULER"]
    after = applied(on, plan(intent(7, 6), on, bound=Bound(spoiled={spoiled})))
    assert len(after["SCHEDULER"]) == 1
    assert spoiled not in after["SCHEDULER"]


def test_rows_that_came_before_their_port_are_written_again() -> None:
    on = applied(BARE, plan(intent(7, 6), BARE))
    changes = plan(intent(7, 6), on, bound=Bound(again={("PORT_QOS_MAP", "Ethernet0"), ("QUEUE", "Ethernet0|7")}))
    assert changes == (
        Merge("PORT_QOS_MAP", "Ethernet0", on["PORT_QOS_MAP"]["Ethernet0"]),
        Merge("QUEUE", "Ethernet0|7", on["QUEUE"]["Ethernet0|7"]),
    )


def test_an_object_of_an_earlier_version_is_kept_but_for_maps_that_a_patch_may_empty() -> None:
    on = applied(BARE, plan(intent(7, 6), BARE))
    renamed: Rows = {}
    for table, entries in on.items():
        for key, row in entries.items():
            short = {field: value[:17] if is_own(value) else value for field, value in row.items()}
            renamed.setdefault(table, {})[key[:17] if is_own(key) else key] = short
    assert all(len(name) == 17 for table in LETTER for name in renamed.get(table, {}))
    changes = plan(intent(7, 6), renamed)
    made = [change for change in changes if isinstance(change, Put)]
    assert [(one.table, one.row) for one in made] == [
        (table, row) for table in ("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP") for row in on[table].values()
    ]
    assert {change.table for change in changes} == {"DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "PORT_QOS_MAP"}
