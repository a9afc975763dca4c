"""YANG and the types draw the same line: what one of them takes, the other takes as well.

Intents are drawn, and up to three things in their trees changed: a leaf becomes odd, or what another leaf is, or goes;
an entry goes or is there twice.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.schema import validate_gnmi

from tests.contract.strategies import intents

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


@settings(max_examples=300)
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
