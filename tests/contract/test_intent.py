"""The switch intent: its forms on the wire, and samples, good and bad, put to Python and to both YANG modules.

A sample is `base` with some places `set` and others `remove`d; a bad one carries the sentence that it must be refused
with, by libyang ("yang", null where SONiC's row-by-row patcher must let it pass) and by Python ("python").
"""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qclimb.checks import json_value
from qclimb.config_db import check_whole, narrowings, with_digest
from qclimb.errors import HalfIntent, IntentError
from qclimb.intent import PathWeights, QueueClass, SwitchIntent
from qclimb.schema import validate_config_db, validate_gnmi

from tests.contract.strategies import intents

SAMPLES = Path(__file__).parent / "samples"
GNMI = json.loads((SAMPLES / "gnmi.json").read_text())
CONFIG_DB = json.loads((SAMPLES / "config_db.json").read_text())


def changed(base: Any, sample: dict[str, Any]) -> Any:
    """A copy of `base` with the sample's places set and removed; list entries by their index."""
    found = copy.deepcopy(base)

    def holder(place: str) -> tuple[Any, Any]:
        *steps, last = place.split("/")
        at = found
        for step in steps:
            at = at[int(step) if isinstance(at, list) else step]
        return at, int(last) if isinstance(at, list) else last

    for place, value in sample.get("set", {}).items():
        at, last = holder(place)
        at[last] = value
    for place in sample.get("remove", []):
        at, last = holder(place)
        del at[last]
    return found


def gnmi(sample: dict[str, Any]) -> Any:
    return {"qclimb:qclimb": changed(GNMI["base"]["qclimb:qclimb"], sample)}


def rows(sample: dict[str, Any]) -> Any:
    return changed(CONFIG_DB["base"], sample)


@pytest.mark.parametrize("sample", GNMI["good"].values(), ids=list(GNMI["good"]))
def test_a_good_gnmi_sample_passes_yang_and_python_and_comes_back(sample: dict[str, Any]) -> None:
    validate_gnmi(gnmi(sample))
    intent = SwitchIntent.from_gnmi(gnmi(sample))
    assert SwitchIntent.from_gnmi(intent.to_gnmi()) == intent


@pytest.mark.parametrize("sample", CONFIG_DB["good"].values(), ids=list(CONFIG_DB["good"]))
def test_good_rows_pass_yang_and_python_and_come_back(sample: dict[str, Any]) -> None:
    validate_config_db(rows(sample))
    intent = SwitchIntent.from_config_db(rows(sample))
    assert SwitchIntent.from_config_db(intent.to_config_db()) == intent


def refused(call: Callable[[Any], object], value: Any, said: str) -> None:
    with pytest.raises(IntentError) as refusal:
        call(value)
    assert said in str(refusal.value)


@pytest.mark.parametrize("sample", GNMI["bad"].values(), ids=list(GNMI["bad"]))
def test_a_bad_gnmi_sample_is_refused_by_yang_and_by_python(sample: dict[str, Any]) -> None:
    refused(validate_gnmi, gnmi(sample), sample["yang"])
    refused(SwitchIntent.from_gnmi, gnmi(sample), sample["python"])


@pytest.mark.parametrize("sample", CONFIG_DB["bad"].values(), ids=list(CONFIG_DB["bad"]))
def test_bad_rows_are_refused_by_yang_and_by_python(sample: dict[str, Any]) -> None:
    if sample["yang"] is None:
        validate_config_db(rows(sample))
    else:
        refused(validate_config_db, rows(sample), sample["yang"])
    refused(SwitchIntent.from_config_db, rows(sample), sample["python"])


def test_the_two_bases_are_the_same_intent() -> None:
    intent = SwitchIntent(
        generation=7,
        admin_state="enabled",
        classes=(
            QueueClass(0, 47, 6),
            QueueClass(1, 43, 5, threshold_bytes=5000),
            QueueClass(2, 39, 1, "balanced", 500000),
        ),
        ports=("Ethernet0", "Ethernet4"),
        ecn_min_bytes=30000,
        ecn_max_bytes=90000,
        path_weights=PathWeights({"s1": 0.25, "s2": 0.75}),
    )
    assert SwitchIntent.from_gnmi(GNMI["base"]) == intent == SwitchIntent.from_config_db(CONFIG_DB["base"])
    assert intent.queues == (6, 5, 1)


def assert_same(found: SwitchIntent, intent: SwitchIntent) -> None:
    """Equal but for shares, which travel with nine digits."""
    shares, expected = (dict(each.path_weights.share) if each.path_weights else {} for each in (found, intent))
    assert shares == pytest.approx(expected, abs=1e-9)
    assert SwitchIntent(**{**vars(found), "path_weights": None}) == SwitchIntent(
        **{**vars(intent), "path_weights": None}
    )


@given(intents())
def test_an_intent_comes_back_from_its_gnmi_json(intent: SwitchIntent) -> None:
    tree = json.loads(json.dumps(intent.to_gnmi()))
    validate_gnmi(tree)
    validate_gnmi(tree["qclimb:qclimb"])
    assert_same(SwitchIntent.from_gnmi(tree), intent)
    assert_same(SwitchIntent.from_gnmi(tree["qclimb:qclimb"]), intent)
    assert SwitchIntent.from_gnmi(tree).to_gnmi() == tree


@given(intents())
def test_an_intent_comes_back_from_its_rows(intent: SwitchIntent) -> None:
    found = intent.to_config_db()
    validate_config_db(found)
    assert all(isinstance(value, str) for table in found.values() for row in table.values() for value in row.values())
    assert all(found.values()), "SONiC's patcher refuses an empty table"
    assert_same(SwitchIntent.from_config_db(found), intent)


def test_classes_of_one_queue_have_one_share_of_the_buffer() -> None:
    pinned = (QueueClass(0, 47, 6, "s1", dynamic_th=0), QueueClass(1, 43, 6, "s2", dynamic_th=1), QueueClass(2, 39, 1))
    with pytest.raises(IntentError, match="class 1 dynamic_th is 1, expected 0 as of class 0: both are in queue 6"):
        SwitchIntent(1, "enabled", pinned)
    with pytest.raises(IntentError, match=r"class 0 dynamic_th is 9, expected an integer in -8\.\.7"):
        QueueClass(0, 47, 6, dynamic_th=9)
    rows = {
        "QCLIMB": {"global": {"generation": "1"}},
        "QCLIMB_CLASS": {"0": {"dscp": "1", "queue": "1", "dynamic_th": "x"}},
    }
    with pytest.raises(IntentError, match=r"QCLIMB_CLASS\|0 dynamic_th is 'x', expected an integer in -8\.\.7"):
        SwitchIntent.from_config_db(rows)


def test_limits_are_shares_and_one_a_queue() -> None:
    pinned = (QueueClass(0, 47, 6, "s1", max_share=0.5), QueueClass(1, 43, 6, "s2"), QueueClass(2, 39, 1))
    with pytest.raises(
        IntentError, match=r"class 1 max_share is not there, expected 0\.5 as of class 0: both are in queue 6"
    ):
        SwitchIntent(1, "enabled", pinned)
    with pytest.raises(IntentError, match=r"class 0 max_share is 0, expected more"):
        QueueClass(0, 47, 6, max_share=0)
    for wrong in (1.5, -0.1, float("nan"), True, "0.5"):
        with pytest.raises(IntentError, match=r"class 0 foretold_share is .*, expected a number in \[0, 1\]"):
            QueueClass(0, 47, 6, foretold_share=wrong)  # type: ignore[arg-type]
    rows = {
        "QCLIMB": {"global": {"generation": "1"}},
        "QCLIMB_CLASS": {"0": {"dscp": "1", "queue": "1", "max_share": "half"}},
    }
    with pytest.raises(IntentError, match=r"QCLIMB_CLASS\|0 max_share is 'half', expected a decimal number"):
        SwitchIntent.from_config_db(rows)


@pytest.mark.parametrize(
    "value",
    [
        *("0.1234567891", 0.1234567891, 0.1 + 0.2, 1e-10, 1.0000000001, "1.0000000001", "-0.1", -0.1, 2, 10**400),
        *("1e-3", ".5", "1.", " 0.5", "\u0660.5", "NaN", "0x1", "9" * 5000, True, None, [], float("nan"), float("inf")),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_share_of_more_digits_or_out_of_range_is_refused_in_every_form(value: Any) -> None:
    tree = {
        "classes": {"class": [{"priority": 0, "config": {"priority": 0, "dscp": 1, "queue": 1, "max-share": value}}]}
    }
    rows = {"QCLIMB_CLASS": {"0": {"dscp": "1", "queue": "1", "max_share": value}}}
    with pytest.raises(IntentError, match=r"^/qclimb/classes/class\[priority='0'\]/config/max-share is .*, expected"):
        SwitchIntent.from_gnmi({"config": {"generation": "1"}, **tree})
    with pytest.raises(IntentError, match=r"^QCLIMB_CLASS\|0 max_share is .*, expected"):
        SwitchIntent.from_config_db({"QCLIMB": {"global": {"generation": "1"}}, **rows})
    with pytest.raises(IntentError):
        validate_gnmi({"config": {"generation": "1"}, **tree})


@pytest.mark.parametrize("text", ["NaN", "1e400", "0.50000000000000000001", "1e99999999999999999999", '{"a":1,"a":1}'])
def test_json_that_readers_understand_differently_is_refused(text: str) -> None:
    with pytest.raises(IntentError, match=r"^here: no JSON"):
        json_value(text, "here", IntentError)


SMALL = st.integers(0, 3)
CLASS = st.tuples(
    *(SMALL, SMALL, st.sampled_from(["balanced", "s1", "s2"]), SMALL, st.sampled_from([None, None, -9, 0, 8])),
    *(st.sampled_from([None, None, None, "0.5", "1", "0", "2"]), st.sampled_from([None, None, "0", "2"])),
)


@given(st.lists(CLASS, max_size=4), st.booleans(), st.tuples(*[st.none() | SMALL] * 2))
def test_yang_and_python_draw_the_same_line(
    found: list[tuple[int, int, str, int, int | None, str | None, str | None]],
    enabled: bool,
    ecn: tuple[int | None, int | None],
) -> None:
    """Small ranges, so that every rule between classes is kept and broken often."""
    config: dict[str, Any] = {"generation": "1", "admin-state": "enabled" if enabled else "disabled"}
    config |= {
        name: str(value)
        for name, value in zip(("ecn-min-bytes", "ecn-max-bytes"), ecn, strict=True)
        if value is not None
    }
    names = ("priority", "dscp", "queue", "path", "threshold-bytes", "dynamic-th", "max-share", "foretold-share")
    told = [dict(zip(names, (priority, *rest), strict=True)) for priority, rest in enumerate(found)]
    classes = [{name: value for name, value in each.items() if value is not None} for each in told]
    tree = {
        "config": config,
        "classes": {"class": [{"priority": each["priority"], "config": each} for each in classes]},
    }
    verdicts = []
    for judge in (validate_gnmi, SwitchIntent.from_gnmi):
        try:
            judge(tree)
            verdicts.append(None)
        except IntentError as error:
            verdicts.append(str(error))
    assert (verdicts[0] is None) == (verdicts[1] is None), verdicts


@given(intents(), st.data())
def test_rows_can_be_taken_out_of_a_valid_table_in_any_order(intent: SwitchIntent, data: st.DataObject) -> None:
    """SONiC's patcher needs that: it validates after each row."""
    found = intent.to_config_db()
    table = found.get("QCLIMB_CLASS", {})
    for priority in data.draw(st.permutations(list(table))):
        del table[priority]
        validate_config_db({**found, "QCLIMB_CLASS": table})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PLACES = [
    *("config", "classes", "classes/class", "classes/class/1", "classes/class/1/config", "classes/class/1/priority"),
    *(f"classes/class/1/config/{leaf}" for leaf in ("priority", "dscp", "queue", "path", "threshold-bytes")),
    *("config/generation", "config/admin-state", "config/ports", "config/ecn-min-bytes", "paths", "paths/path"),
    *("paths/path/0", "paths/path/0/name", "paths/path/0/config", "paths/path/0/config/share"),
]


@given(st.sampled_from(PLACES), JSON)
def test_no_json_makes_an_intent_fail_otherwise(place: str, value: Any) -> None:
    tree = gnmi({"set": {place: value}})
    for judge in (SwitchIntent.from_gnmi, validate_gnmi):
        try:
            judge(tree)
        except IntentError as error:
            assert "\n" not in str(error).replace(repr(value), "")


@pytest.mark.parametrize("obj", [None, [], 5, "x", {"qclimb:qclimb": 5}, {"qclimb:qclimb": None}, {1: 2}])
def test_what_is_no_tree_is_refused(obj: Any) -> None:
    for judge in (SwitchIntent.from_gnmi, validate_gnmi):
        with pytest.raises(IntentError):
            judge(obj)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ({"s1": float("nan")}, "path s1 share is nan, expected a number in [0, 1]"),
        ({"s1": "all"}, "path s1 share is 'all', expected a number in [0, 1]"),
        ({"s 1": 1.0}, "path name is 's 1', expected text like"),
        ({}, "path shares sum to 0, expected 1"),
    ],
)
def test_impossible_weights_are_refused(share: Any, said: str) -> None:
    refused(PathWeights, share, said)


def test_values_that_could_change_are_refused() -> None:
    with pytest.raises(IntentError, match="expected a tuple"):
        SwitchIntent(1, "enabled", [QueueClass(0, 47, 7)])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        PathWeights({"s1": 1.0}).share["s1"] = 0.5  # type: ignore[index]
    assert len({PathWeights({"s1": 1.0}), PathWeights({"s1": 1.0})}) == 1


def test_a_whole_intents_rows_carry_a_digest_that_half_of_them_do_not_make() -> None:
    intent = SwitchIntent(3, "enabled", (QueueClass(0, 47, 7), QueueClass(1, 43, 6)), ports=("Ethernet0", "Ethernet4"))
    rows = with_digest(intent.to_config_db())
    validate_config_db(rows)
    assert SwitchIntent.from_config_db(rows) == intent
    check_whole(rows)
    listed = {**rows["QCLIMB"]["global"], "ports@": "Ethernet0,Ethernet4"}
    del listed["ports"]
    check_whole({**rows, "QCLIMB": {"global": listed}})  # as it was written once
    assert SwitchIntent.from_config_db({**rows, "QCLIMB": {"global": listed}}).ports == intent.ports
    half = {**rows, "QCLIMB_CLASS": {"0": rows["QCLIMB_CLASS"]["0"]}}
    with pytest.raises(
        HalfIntent, match=r"digest is '[0-9a-f]{16}', and the rows of QCLIMB, QCLIMB_CLASS, QCLIMB_PATH"
    ):
        check_whole(half)


@pytest.mark.parametrize(
    ("leaf", "value", "now"),
    [
        ("dynamic-th", 8, 7),
        ("ecn-max-bytes", str(2**31), str(2**31 - 1)),
        ("ecn-max-bytes", str(2**64 - 1), str(2**31 - 1)),
    ],
)
def test_a_number_that_an_earlier_version_took_is_read_from_a_store_and_refused_in_a_request(
    leaf: str, value: Any, now: Any
) -> None:
    good = SwitchIntent(1, "enabled", (QueueClass(0, 47, 6),), ecn_min_bytes=1000, ecn_max_bytes=2000).to_gnmi()

    def with_leaf(found: Any) -> Any:
        tree = copy.deepcopy(good)
        config = tree["qclimb:qclimb"]["config"]
        (config if leaf.startswith("ecn") else tree["qclimb:qclimb"]["classes"]["class"][0]["config"])[leaf] = found
        return tree

    assert SwitchIntent.from_stored(with_leaf(value)) == SwitchIntent.from_gnmi(with_leaf(now))
    assert SwitchIntent.from_stored(good) == SwitchIntent.from_gnmi(good)
    for read in (SwitchIntent.from_gnmi, validate_gnmi):
        with pytest.raises(IntentError, match=leaf):
            read(with_leaf(value))
    nonsense = with_leaf("x")
    with pytest.raises(IntentError, match=leaf):
        SwitchIntent.from_stored(nonsense)


def test_no_version_took_a_number_beyond_the_stored_range() -> None:
    rows = SwitchIntent(1, "enabled", (QueueClass(0, 47, 6, dynamic_th=7),)).to_config_db()
    for value, said in (("9", True), ("-9", True), ("8", False)):
        rows["QCLIMB_CLASS"]["0"]["dynamic_th"] = value
        assert bool(narrowings(rows)) is not said
        if said:
            with pytest.raises(IntentError, match=r"dynamic_th is -?9, expected an integer in -8\.\.7"):
                SwitchIntent.from_config_db(rows)
        else:
            assert SwitchIntent.from_config_db(rows).classes[0].dynamic_th == 7
