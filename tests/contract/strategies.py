"""Strategies of every valid value of the contract, with the ends of each range drawn often."""

from typing import Any

from hypothesis import strategies as st
from qclimb.intent import PathWeights, QueueClass, SwitchIntent
from qclimb.layout import bits_of, kinds_of
from qclimb.leaves import LARGEST_ECN, LARGEST_TH, LEAST_ECN, LEAST_TH, NOT_OURS
from qclimb.policy import Mode, Policy
from qclimb.record import FlowRecord
from qclimb.text import replace_unprintable

OURS = [dscp for dscp in range(64) if dscp not in NOT_OURS]
U32, U64 = 2**32 - 1, 2**64 - 1
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


def u(largest: int, least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, largest) | st.sampled_from([least, largest])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    priorities = draw(st.sampled_from([1, 2, 8, 64]) | st.integers(1, 64))
    dscp = draw(st.permutations(range(64)))[:priorities]
    thresholds = draw(st.sets(u(U64 - 1, 1), min_size=priorities - 1, max_size=priorities - 1))
    told = {"mode": st.sampled_from(Mode), "threshold_bytes": st.just(tuple(sorted(thresholds)))}
    rows = [0, 1, *(spines for spines in range(2, priorities) if (priorities - 1) % spines == 0)]
    free = [0, *sorted(set(range(1, 64)) - set(dscp))]
    told |= {"spines": st.sampled_from(rows), "unpinned_dscp": st.sampled_from(free)}
    told |= {"dscp": st.just(tuple(dscp)), **dict.fromkeys(bits_of(Policy), st.booleans())}
    return Policy(**draw(st.fixed_dictionaries(numbers_of(Policy) | told)))


def numbers_of(value: type) -> dict[str, st.SearchStrategy[Any]]:
    """Each field that is a number, in its range."""
    return {name: u(kind.highest) for name, kind in kinds_of(value).items() if not kind.count}


@st.composite
def records(draw: st.DrawFn) -> FlowRecord:
    start, last, drained = sorted(draw(st.lists(u(U64), min_size=3, max_size=3)))
    lower, upper = sorted(draw(st.lists(u(U64), min_size=2, max_size=2)))
    address = st.ip_addresses().map(str)
    name = st.text(max_size=15).map(replace_unprintable)
    told = {
        "start_ns": st.just(start),
        "last_write_ns": st.just(last),
        "drained_ns": st.sampled_from([0, drained]),
        "size_bytes": u(U64, 1),
        "lower_bytes": st.just(lower),
        "upper_bytes": st.just(upper),
        "last_size_bytes": st.tuples(*[u(U64)] * 5),
        "local_addr": address,
        "peer_addr": address,
        "mode": st.sampled_from(Mode),
        "comm": name.filter(lambda text: len(text.encode()) <= 15 and "\ufffd" not in text),
    }
    return FlowRecord(**draw(st.fixed_dictionaries(numbers_of(FlowRecord) | told)))


@st.composite
def intents(draw: st.DrawFn) -> SwitchIntent:
    """Intents for one path (a queue a priority) and for several spines (priorities of distinct ones share a queue)."""
    spines = draw(st.lists(NAMES.filter(lambda name: name != "balanced"), max_size=4, unique=True))
    queues = sorted(draw(st.sets(st.integers(0, 7), min_size=1, max_size=8)), reverse=True)
    places = [(queue, path) for queue in queues[:-1] for path in (spines or ["balanced"])] + [(queues[-1], "balanced")]
    dscp = draw(st.permutations(OURS))
    told = draw(st.booleans())
    thresholds = sorted(draw(st.sets(u(U64 - 1, 1), min_size=len(places), max_size=len(places)))) if told else [0] * 64
    thresholds[0] = 0
    parts = draw(st.lists(st.integers(0, 1000), min_size=len(spines), max_size=len(spines)))
    weights = (
        PathWeights({name: part / sum(parts) for name, part in zip(spines, parts, strict=True)}) if sum(parts) else None
    )
    free = [None, *sorted(set(OURS) - set(dscp[: len(places)]))] if spines and len(places) > 1 else [None]
    shares = {queue: draw(st.none() | st.integers(LEAST_TH, LARGEST_TH)) for queue in queues}
    limits = {queue: draw(st.none() | st.integers(1, 1000).map(lambda parts: parts / 1000)) for queue in queues}
    foretold = draw(st.lists(st.none() | st.floats(0, 1), min_size=len(places), max_size=len(places)))
    ecn = (
        sorted(draw(st.lists(u(LARGEST_ECN, LEAST_ECN), min_size=2, max_size=2)))
        if draw(st.booleans())
        else (None, None)
    )
    return SwitchIntent(
        generation=draw(u(U64)),
        admin_state=draw(st.sampled_from(["enabled", "disabled"])),
        classes=tuple(
            QueueClass(
                *(priority, dscp[priority], queue, path, thresholds[priority]),
                *(shares[queue], limits[queue], foretold[priority]),
            )
            for priority, (queue, path) in enumerate(places)
        ),
        ports=tuple(draw(st.lists(st.from_regex(r"Ethernet[0-9]{1,3}", fullmatch=True), max_size=4, unique=True))),
        ecn_min_bytes=ecn[0],
        ecn_max_bytes=ecn[1],
        path_weights=weights,
        unpinned_dscp=draw(st.sampled_from(free)),
        tier="leaf" if weights else draw(st.sampled_from(["leaf", "spine"])),
    )
