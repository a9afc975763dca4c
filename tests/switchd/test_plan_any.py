"""plan() as a property: on any switch it holds, is done at once, and can be taken back."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.leaves import LARGEST_TH, LEAST_TH, NOT_OURS

from switchd.plan import Refused
from switchd.plan import plan as whole_plan
from switchd.rows import Delete, Rows, applied
from tests.switchd.platforms import REFERRING, dangling, intent, narrow, plan, queue_of
from tests.tiers import examples

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
        "BUFFER_QUEUE": st.builds(
            lambda found, wide: {**found, **{span: {"profile": "AZURE"} for span in wide}} if found else {},
            st.dictionaries(
                st.tuples(st.sampled_from(PORTS), st.sampled_from(["0", "3", "4", "5", "6", "7", "1-2", "5-6"])).map(
                    "|".join
                ),
                maybe(profile=NAMES).filter(bool),
            ),
            st.sampled_from([[f"{','.join(PORTS)}|0-7"], [f"{port}|0-7" for port in PORTS], []]),
        ),
    }
).map(lambda rows: {table: entries for table, entries in rows.items() if entries})

INTENTS = st.one_of(
    st.none(),
    st.builds(
        lambda queues, ports, ecn, dscps, shares: SwitchIntent(
            1,
            "enabled",
            tuple(
                QueueClass(p, d, q, dynamic_th=share, max_share=None if share is None else (share + 9) / 16)
                for p, (q, d, share) in enumerate(zip(sorted(queues, reverse=True), dscps, shares, strict=False))
            ),
            ports=tuple(sorted(ports)),
            ecn_min_bytes=ecn,
            ecn_max_bytes=ecn and 2 * ecn,
        ),
        st.sets(st.integers(0, 7), min_size=1),
        st.sets(st.sampled_from(PORTS)),
        st.one_of(st.none(), st.integers(1, 10**6)),
        st.permutations([d for d in range(64) if d not in NOT_OURS]),
        st.lists(st.one_of(st.none(), st.integers(LEAST_TH, LARGEST_TH)), min_size=8, max_size=8),
    ),
)


def tried(wanted: SwitchIntent | None, rows: Rows) -> Rows:
    """The rows after the plan, checked at every step; a refused plan changes nothing."""
    try:
        planned = whole_plan(wanted, rows)
    except Refused:
        return rows
    changes = planned.changes
    for count in range(len(changes) + 1):
        assert not dangling(applied(rows, changes[:count])), changes[count - 1]
    for one in planned.transactions:
        assert len({(c.table, c.key) for c in one if isinstance(c, Delete)} & {(c.table, c.key) for c in one
                   if not isinstance(c, Delete)}) == 0  # fmt: skip
        rows = applied(rows, one)
        assert planned.transactions[-1] == one or whole_plan(wanted, rows).transactions == planned.transactions[1:]
    assert plan(wanted, rows) == ()
    return rows


@settings(max_examples=examples(50), deadline=None)
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
        assert standing(without, table, before) == standing(before, table, before)


def standing(rows: Rows, table: str, before: Rows) -> dict[str, dict[str, str]]:
    """A table's rows that are not empty, without WRED profiles that dangled before: these are not always given back."""
    profiles = before.get("WRED_PROFILE", {})
    without = {
        key: {name: value for name, value in row.items() if name != "wred_profile" or value in profiles}
        for key, row in rows.get(table, {}).items()
    }
    return {key: row for key, row in without.items() if row}


@settings(max_examples=examples(33), deadline=None)
@given(SWITCHES, INTENTS)
def test_on_any_switch_classes_get_their_queue_and_the_others_keep_theirs(
    before: Rows, wanted: SwitchIntent | None
) -> None:
    after = tried(wanted, before)
    if wanted is None or after == before:
        return
    ours = {one.dscp: str(one.queue) for one in wanted.classes}
    refused = whole_plan(wanted, before).refused
    for port in set(wanted.ports or PORTS) - refused.keys():
        row = before.get("PORT_QOS_MAP", {}).get(port, {})
        if row.get("dscp_to_tc_map") not in before.get("DSCP_TO_TC_MAP", {}):
            continue  # the switch-level map counts then, see wanted.py
        for dscp in range(64):
            expected = ours.get(dscp, queue_of(before, port, dscp))
            assert queue_of(after, port, dscp) == expected, (port, dscp)


def test_a_table_is_read_as_often_for_many_ports_as_for_few() -> None:
    class Counted(dict[str, dict[str, str]]):
        looks = 0

        def __iter__(self) -> Any:
            Counted.looks += 1
            return super().__iter__()

        def items(self) -> Any:
            Counted.looks += 1
            return super().items()

    looks = []
    for ports in (2, 16):
        names = [f"Ethernet{n}" for n in range(ports)]
        rows: dict[str, Any] = {
            "PORT": {name: {} for name in names},
            "QUEUE": Counted({f"{name}|{queue}": {} for name in names for queue in range(8)}),
            "BUFFER_QUEUE": Counted({f"{name}|0-7": {"profile": "P"} for name in names}),
            "BUFFER_PG": Counted({f"{name}|0": {"profile": "P"} for name in names}),
        }
        Counted.looks = 0
        assert plan(narrow(intent(7, 6, 5)), rows)
        looks.append(Counted.looks)
    assert looks[0] == looks[1]
