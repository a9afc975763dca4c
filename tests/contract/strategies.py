"""Strategies of every valid value of the contract, with the ends of each range drawn often."""

from hypothesis import strategies as st
from qclimb.intent import PathWeights, QueueClass, SwitchIntent
from qclimb.policy import MAX_PROMOTE_WAIT_US, Mode, Policy
from qclimb.record import FlowRecord

U16, U32, U64 = 2**16 - 1, 2**32 - 1, 2**64 - 1
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)


def u(largest: int, least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, largest) | st.sampled_from([least, largest])


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    priorities = draw(st.sampled_from([1, 2, 8, 64]) | st.integers(1, 64))
    dscp = draw(st.permutations(range(64)))[:priorities]
    thresholds = draw(st.sets(u(U64 - 1, 1), min_size=priorities - 1, max_size=priorities - 1))
    return Policy(
        generation=draw(u(U64)),
        mode=draw(st.sampled_from(Mode)),
        threshold_bytes=tuple(sorted(thresholds)),
        dscp=tuple(dscp),
        slack_bytes=draw(u(U64)),
        small_coflow_bytes=draw(u(U64)),
        flow_gap_us=draw(u(U32)),
        promote_wait_us=draw(u(MAX_PROMOTE_WAIT_US)),
        use_forest=draw(st.booleans()),
        use_footprint=draw(st.booleans()),
        quickack=draw(st.booleans()),
        model_generation=draw(u(U64)),
        deadline_step_us=draw(u(U32)),
        optax=draw(st.booleans()),
    )


@st.composite
def records(draw: st.DrawFn) -> FlowRecord:
    start, last, drained = sorted(draw(st.lists(u(U64), min_size=3, max_size=3)))
    lower, upper = sorted(draw(st.lists(u(U64), min_size=2, max_size=2)))
    address = st.ip_addresses().map(str)
    name = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=15)
    return FlowRecord(
        start_ns=start,
        last_write_ns=last,
        drained_ns=draw(st.sampled_from([0, drained])),
        size_bytes=draw(u(U64, 1)),
        lower_bytes=lower,
        upper_bytes=upper,
        first_write_bytes=draw(u(U64)),
        footprint_lower_bytes=draw(u(U64)),
        start_us=draw(u(U64)),
        gap_us=draw(u(U64)),
        last_size_bytes=draw(st.tuples(*[u(U64)] * 5)),
        connection=draw(u(U64)),
        wait_ns=draw(u(U64)),
        pid=draw(u(U32)),
        flow_index=draw(u(U32)),
        promotions=draw(u(U32)),
        demotions=draw(u(U32)),
        local_addr=draw(address),
        peer_addr=draw(address),
        local_port=draw(u(U16)),
        peer_port=draw(u(U16)),
        role=draw(u(1)),
        mode=draw(st.sampled_from(Mode)),
        last_priority=draw(u(63)),
        flags=draw(u(255)),
        comm=draw(name.filter(lambda text: len(text.encode()) <= 15 and "\ufffd" not in text)),
    )


@st.composite
def intents(draw: st.DrawFn) -> SwitchIntent:
    """Intents for one path (a queue a priority) and for several spines (priorities of distinct ones share a queue)."""
    spines = draw(st.lists(NAMES.filter(lambda name: name != "balanced"), max_size=4, unique=True))
    queues = sorted(draw(st.sets(st.integers(0, 7), min_size=1, max_size=8)), reverse=True)
    places = [(queue, path) for queue in queues[:-1] for path in (spines or ["balanced"])] + [(queues[-1], "balanced")]
    dscp = draw(st.permutations(range(64)))
    told = draw(st.booleans())
    thresholds = sorted(draw(st.sets(u(U64 - 1, 1), min_size=len(places), max_size=len(places)))) if told else [0] * 64
    thresholds[0] = 0
    parts = draw(st.lists(st.integers(0, 1000), min_size=len(spines), max_size=len(spines)))
    weights = (
        PathWeights({name: part / sum(parts) for name, part in zip(spines, parts, strict=True)}) if sum(parts) else None
    )
    ecn = sorted(draw(st.lists(u(U64, 1), min_size=2, max_size=2))) if draw(st.booleans()) else (None, None)
    return SwitchIntent(
        generation=draw(u(U64)),
        admin_state=draw(st.sampled_from(["enabled", "disabled"])),
        classes=tuple(
            QueueClass(priority, dscp[priority], queue, path, thresholds[priority])
            for priority, (queue, path) in enumerate(places)
        ),
        ports=tuple(draw(st.lists(st.from_regex(r"Ethernet[0-9]{1,3}", fullmatch=True), max_size=4, unique=True))),
        ecn_min_bytes=ecn[0],
        ecn_max_bytes=ecn[1],
        path_weights=weights,
    )
