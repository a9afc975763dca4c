"""YANG and the types draw the same line: what one of them takes, the other takes as well.

Intents are drawn, and up to three things in their trees changed: a leaf becomes odd, or what another leaf is, or goes;
an entry goes or is there twice. And all intents that a few values of each leaf make are put to both, so that no rule
between leaves is left to chance.
"""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.schema import validate_config_db, validate_gnmi

from tests.contract.strategies import intents
from tests.tiers import examples

ODD = [
    *(
        None,
        True,
        -1,
        0,
        1,
        7,
        8,
        63,
        64,
        1.5,
        1.0,
        "",
        "x",
        "0",
        "1",
        "-0",
        "007",
        "+1",
        " 1",
        "1 ",
        "0x1",
        "1e0",
        [],
        {},
    ),
    *(
        "\u0663",
        2**64,
        str(2**64),
        str(2**64 - 1),
        "enabled",
        "disabled",
        "leaf",
        "spine",
        "balanced",
        "s1",
        "s 1",
        "s1\n",
    ),
    *("a" * 63, "a" * 64, "0.5", 0.5, "0.999999", "1.000001", "1.0000011", "0.5000000000", "0.1234567891", ".5", "5."),
    *("+0.5", "5e-1", "nan", "inf", "0_1", 0.1234567891, 1.0000000001, 1e-10, float("nan"), ["Ethernet0", "Ethernet0"]),
]
NAMES = (
    *(
        "generation",
        "admin-state",
        "ports",
        "ecn-min-bytes",
        "ecn-max-bytes",
        "unpinned-dscp",
        "tier",
        "priority",
        "dscp",
    ),
    *("queue", "path", "threshold-bytes", "dynamic-th", "max-share", "foretold-share", "name", "share", "colour"),
)


def holders(tree: Any) -> Iterator[Any]:
    """Every object and array in a tree."""
    if isinstance(tree, dict | list):
        yield tree
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from holders(inner)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    (tree,) = json.loads(json.dumps(draw(intents()).to_gnmi())).values()
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2, 3]))):
        found = list(holders(tree))
        holder = draw(st.sampled_from(found))
        others = [
            leaf for each in found if isinstance(each, dict) for leaf in each.values() if isinstance(leaf, str | int)
        ]
        value = draw(st.sampled_from(ODD) | st.sampled_from(others or [0]))
        places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        match draw(st.sampled_from(["change", "change", "add", "drop"])):
            case "change" | "drop" as act if places:
                place = draw(st.sampled_from(places))
                if act == "drop":
                    del holder[place]
                elif not isinstance(holder[place], dict | list):
                    holder[place] = value
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(NAMES))] = value
            case _:
                holder += holder[:1]
    tree.pop("ports", None)  # state, which the types pass over
    return tree


def verdict(judge: Any, obj: Any) -> str | None:
    try:
        judge(obj)
    except IntentError as error:
        return str(error)
    return None


def with_share(share: Any) -> dict[str, Any]:
    return {
        "config": {"generation": "1"},
        "paths": {"path": [{"name": "s1", "config": {"name": "s1", "share": share}}]},
    }


@settings(max_examples=examples(50))
@given(trees())
@example(with_share("0.999999"))
@example(with_share("1.0000010"))
@example(with_share(1.0000000001))
@example({"config": {"tier": "spine"}})
@example({"config": {"generation": "1"}, "classes": {"class": [{"priority": 0, "config": {"dscp": 1, "queue": 7}}]}})
def test_a_tree_is_an_intent_where_yang_takes_it(tree: dict[str, Any]) -> None:
    by_yang, by_types = verdict(validate_gnmi, tree), verdict(SwitchIntent.from_gnmi, tree)
    assert (by_yang is None) == (by_types is None) or says_nothing(tree), (by_yang, by_types)


def says_nothing(tree: dict[str, Any]) -> bool:
    """No generation, and nothing but defaults: YANG can't tell that from no configuration, which is no intent."""
    kept = {name: inner for name, inner in tree.items() if name == "config" or any(holders_with_content(inner))}
    config = {name: value for name, value in kept.pop("config", {}).items() if value != []}
    return not kept and config.items() <= {"admin-state": "disabled", "tier": "leaf"}.items()


def holders_with_content(tree: Any) -> Iterator[Any]:
    return (each for each in holders(tree) if any(not isinstance(inner, dict | list) for inner in each))


@pytest.mark.parametrize("tree", [{}, {"config": {}}, {"config": {"admin-state": "disabled", "ports": []}}])
def test_what_says_nothing_is_valid_and_no_intent(tree: dict[str, Any]) -> None:
    assert verdict(validate_gnmi, tree) is None
    assert "lacks 'generation'" in str(verdict(SwitchIntent.from_gnmi, tree))


def pair(**leaves: tuple[Any, Any]) -> dict[str, Any]:
    """Two classes' leaves, each with its value in the first and in the second; None: left out."""
    told = {name.replace("_", "-"): values for name, values in {**CLASSES, **leaves}.items()}
    entries = [{name: values[at] for name, values in told.items() if values[at] is not None} for at in (0, 1)]
    return {"class": [{"priority": entry["priority"], "config": entry} for entry in entries]}


CLASSES = {"priority": (0, 1), "dscp": (1, 2), "queue": (7, 6)}
PINNED = pair(path=("s1", "s2"), queue=(7, 7))


def shares(*told: str) -> dict[str, Any]:
    return {"path": [{"name": f"s{n}", "config": {"name": f"s{n}", "share": share}} for n, share in enumerate(told, 1)]}


def twos(*values: Any) -> list[tuple[Any, Any]]:
    return list(product(values, repeat=2))


def every_pair() -> Iterator[dict[str, Any]]:
    """What holds between two classes, and between them and the spines."""
    config = {"generation": "1", "admin-state": "enabled"}
    for queue, path, weights in product(twos(6, 7), twos(None, "balanced", "s1", "s2"), (None, ("0", "1"))):
        paths = {"paths": shares(*weights)} if weights else {}
        yield {"config": config, "classes": pair(queue=queue, path=path), **paths}
    for queue, path, th, limit in product(twos(6, 7), twos("s1", "s2"), twos(None, 0), twos(None, "0.5")):
        yield {"config": config, "classes": pair(queue=queue, path=path, dynamic_th=th, max_share=limit)}
    for priority, dscp, threshold in product(twos(0, 1, 2), twos(1, 2), twos(None, "0", "1", "2")):
        yield {"config": config, "classes": pair(priority=priority, dscp=dscp, threshold_bytes=threshold)}


def every_config() -> Iterator[dict[str, Any]]:
    """What holds between the leaves of the switch as a whole, and between them and classes and spines."""
    leaves: dict[str, tuple[Any, ...]] = {
        "generation": (None, "0"),
        "admin-state": (None, "enabled"),
        "ecn-min-bytes": (None, "1", "2"),
        "ecn-max-bytes": (None, "1", "2"),
        "tier": (None, "spine"),
        "unpinned-dscp": (None, 0, 1),
    }
    for values in product(*leaves.values()):
        config = {name: value for name, value in zip(leaves, values, strict=True) if value is not None}
        for classes, weights in product((None, pair(), PINNED), (None, shares("0.5", "0.5"))):
            told = {"classes": classes, "paths": weights}
            yield {"config": config, **{name: inner for name, inner in told.items() if inner}}
    for told in product(("0", "0.5", "0.499999", "0.499998", "0.500001", "0.500002", "1"), repeat=2):
        yield {"config": {"generation": "1"}, "paths": shares(*told)}
    for ports in ([], ["a"], ["a", "b"], ["a", "b", "a"]):
        yield {"config": {"generation": "1", "ports": ports}}


@pytest.mark.parametrize("every", [every_pair, every_config])
def test_all_intents_of_a_few_values_are_judged_alike(every: Any) -> None:
    """Rows may say less than an intent, one by one; SONiC's module takes those of every whole intent."""
    count, taken = 0, 0
    for tree in every():
        by_yang, by_types = verdict(validate_gnmi, tree), verdict(SwitchIntent.from_gnmi, tree)
        assert (by_yang is None) == (by_types is None) or says_nothing(tree), (tree, by_yang, by_types)
        count += 1
        if by_types is None:
            taken += 1
            if taken % 4 == 0:
                validate_config_db(SwitchIntent.from_gnmi(tree).to_config_db())
    assert 100 < taken < count
