"""What packets carry under the tagger: each change of the DSCP at its packet, and nothing else changed."""

import pytest
from hosts import talk
from stand import B6, DSCP, THRESHOLDS, B, policy

pytestmark = pytest.mark.fabric


def fresh(seen):
    """(first, end, DSCP) of what came for the first time and in order: what a queue dropped comes later, sent again."""
    top, out = 0, []
    for first, end, dscp in seen.spans:
        if first >= top:
            out.append((first, end, dscp))
        top = max(top, end)
    return out


def edges(seen):
    """(offset of the packet, DSCP) at each change."""
    out = []
    for first, _, dscp in fresh(seen):
        if not out or out[-1][1] != dscp:
            out.append((first, dscp))
    return out


def at_packets(rule, seen):
    """Edges of a rule, in bytes, as the first packet that begins at or past each must show them."""
    firsts = [first for first, _, _ in fresh(seen)]
    return [(next(first for first in firsts if first >= at), dscp) for at, dscp in rule]


def demoted(size):
    return [(0, DSCP[0]), *((at, dscp) for at, dscp in zip(THRESHOLDS, DSCP[1:], strict=True) if at < size)]


@pytest.mark.parametrize("to", [B, B6])
@pytest.mark.parametrize("size", [1_024, 12_000, 50_000, 250_000, 2_500_000, 10_485_760])
def test_a_flow_is_demoted_at_the_packet_of_each_threshold(pair, size, to):
    a, b = pair
    a.tagger(policy())
    seen, _ = talk(a, b, size=size, to=to)
    assert seen.bytes == size
    assert edges(seen) == at_packets(demoted(size), seen)
