"""Rules are learned from flows' sizes alone: the C that proposes, hostd's learner, and the C that applies, together."""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from qclimb.lengthfile import Proposal
from qclimb.lengths import EXACT_FLOWS, Announced, LengthRule, PortRange, Score, Service, Use
from qclimb.record import BY_HTTP, BY_RULE, BY_TRIAL, CUT, FlowRecord
from qclimb.record_rows import from_records

from hostlib.hostd.learning import BARRED_S, Learner
from tests.core.core import Core

SERVICE = Service("store", 1, 9000)
FIRST_WRITE = 512

Message = Callable[[random.Random], tuple[bytes, int]]
"""(first bytes, size) of one message."""


def noise(chance: random.Random, count: int) -> bytes:
    return chance.randbytes(count)


def size_of(chance: random.Random) -> int:
    return int(10 ** chance.uniform(3.2, 7))


def kafka(chance: random.Random) -> tuple[bytes, int]:
    """u32 big endian, what follows it."""
    size = size_of(chance)
    return struct.pack(">IHHI", size - 4, 1, 11, chance.getrandbits(31)) + noise(chance, 60), size


def spark(chance: random.Random) -> tuple[bytes, int]:
    """u64 big endian, itself included; then a type and an id."""
    size = size_of(chance)
    return struct.pack(">QBQ", size, chance.choice((1, 4, 9)), chance.getrandbits(63)) + noise(chance, 60), size


def parameters(chance: random.Random) -> tuple[bytes, int]:
    """Four u32 little endian, the last one the body's."""
    size = size_of(chance)
    return struct.pack("<4I", 0x5157, chance.randrange(8), chance.randrange(1000), size - 16) + noise(chance, 60), size


def quorum(chance: random.Random) -> tuple[bytes, int]:
    """ZooKeeper's QuorumPacket: i32 type, i64 zxid, data behind its length (-1: none), authinfo (i32 -1).

    Proposals, and what has no data; a leader batches those.
    """
    kind = chance.choice((2, 3, 4, 5))
    zxid = 1 << 32 | chance.randrange(100_000)
    if kind != 2:
        return struct.pack(">iqii", kind, zxid, -1, -1) * 8, 20 * chance.randrange(40, 4_000)
    size = size_of(chance)
    return struct.pack(">iqi", kind, zxid, size - 20) + noise(chance, 60), size


def typed(chance: random.Random) -> tuple[bytes, int]:
    """u32 big endian a type, and its length in messages of type 2 alone: where others have it, they have a number."""
    kind, size = chance.choice((1, 2, 7)), size_of(chance)
    number = size - 20 if kind == 2 else chance.randrange(1 << 26)
    return struct.pack(">IQI", kind, chance.randrange(9), number) + noise(chance, 60), size


def ssh_like(chance: random.Random) -> tuple[bytes, int]:
    """All of it ciphered."""
    return noise(chance, 80), size_of(chance)


@dataclass
class Host:
    """One service's flows, as a library sees them: proposes, or tells what the rule in its file says."""

    core: Core
    learner: Learner
    flows: int = 0

    def flow(self, head: bytes, size: int, first_write: int = FIRST_WRITE, **changed: int) -> int:
        """What was announced of it, and counted as a bound; 0: nothing."""
        self.flows += 1
        shown = head[: min(64, first_write)]
        known = self.learner.known.get(SERVICE)
        first = min(first_write, size)
        if known is None or known.asks_for_tags:
            if size > first:
                tags = self.core.tags(shown) if known else ()
                self.learner.propose(Proposal(SERVICE, size, first, self.core.candidates(shown, size), tags))
            return 0
        announced = self.core.foretell(known, shown) if known.use is not Use.FORBIDDEN else 0
        by = BY_TRIAL if known.use is Use.TRIAL else BY_RULE
        self.learner.count(from_records([told(size, announced, by, first, **changed)]), 0)
        return announced if known.use is Use.IN_FORCE else 0


def told(size: int, announced: int, by: int, first: int = FIRST_WRITE, **changed: int) -> FlowRecord:
    fields: dict[str, int] = {"announced_bytes": announced, "announced_by": by if announced else 0, **changed}
    return FlowRecord(
        start_ns=1, last_write_ns=1, size_bytes=size, first_write_bytes=first, role=1, local_port=9000, comm="store",
        **fields,
    )  # fmt: skip


@pytest.fixture
def host(core: Core) -> Host:
    return Host(core, Learner())


def played(host: Host, message: Message, flows: int = 200, seed: int = 1) -> Iterator[tuple[int, int]]:
    """(announced, size) of each flow."""
    chance = random.Random(seed)
    for _ in range(flows):
        head, size = message(chance)
        yield host.flow(head, size), size


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (kafka, LengthRule(0, 4, True, 4)),
        (spark, LengthRule(0, 8, True, 0)),
        (parameters, LengthRule(12, 4, False, 16)),
    ],
)
def test_a_length_field_is_found_within_twenty_flows(host: Host, message: Message, rule: LengthRule) -> None:
    found = list(played(host, message))
    first = next(index for index, (announced, _) in enumerate(found) if announced)
    assert first <= 20
    assert host.learner.known[SERVICE].rule == rule
    assert all(announced == size for announced, size in found[first:])


def test_what_is_ciphered_teaches_nothing(host: Host) -> None:
    assert not any(announced for announced, _ in played(host, ssh_like, flows=600))
    assert all(each.use is Use.TRIAL for each in host.learner.known.values())


def test_a_quorum_of_zookeeper_tells_its_proposals(host: Host) -> None:
    """A length of -1 stands where there is no data: nothing is said of those."""
    found = list(played(host, quorum, flows=400))
    assert host.learner.known[SERVICE].rule == LengthRule(12, 4, True, 20)
    last = found[200:]
    assert all(announced in (0, size) for announced, size in last)
    assert 30 < sum(announced > 0 for announced, _ in last) < 70


def test_a_length_that_one_type_of_message_has_is_learned_with_its_tag(host: Host) -> None:
    found = list(played(host, typed, flows=400))
    assert host.learner.known[SERVICE].rule == LengthRule(12, 4, True, 20, tag_offset=3, tag=2)
    first = next(index for index, (announced, _) in enumerate(found) if announced == found[index][1])
    last = found[200:]
    assert first < 120
    assert all(announced in (0, size) for announced, size in last)
    assert 40 < sum(announced > 0 for announced, _ in last) < 100


def test_a_tag_is_a_small_number_of_the_first_sixteen_bytes(core: Core) -> None:
    assert core.tags(bytes([0, 63, 64, 255, 5])) == ((0, 0), (1, 63), (4, 5))
    assert core.tags(bytes(64)) == tuple((offset, 0) for offset in range(16))


def test_messages_of_one_size_teach_nothing(host: Host) -> None:
    chance = random.Random(2)
    for _ in range(100):
        host.flow(struct.pack(">I", 70_000) + noise(chance, 60), 70_004)
    assert host.learner.known == {}


def test_flows_of_several_messages_count_as_right(host: Host) -> None:
    """A third of them: what the first one announces is a lower bound that holds."""
    chance = random.Random(3)
    found = []
    for number in range(200):
        head, size = kafka(chance)
        found.append((host.flow(head, size + (5000 if number % 3 == 0 else 0)), size))
    assert sum(announced > 0 for announced, _ in found) > 150
    assert host.learner.known[SERVICE].score.short > 0


def test_a_rule_that_goes_wrong_is_dropped_barred_and_learned_anew(host: Host) -> None:
    """The program was replaced by one with another protocol on the same port."""
    list(played(host, kafka, flows=50))
    before = host.learner.known[SERVICE]
    chance = random.Random(4)
    flows = 0
    while host.learner.known.get(SERVICE, before).rule == before.rule:
        size = size_of(chance)
        host.flow(struct.pack(">I", 3 * size) + struct.pack("<I", size - 8) + noise(chance, 60), size)
        flows += 1
        assert flows < 30
    for _ in range(40):
        size = size_of(chance)
        host.flow(struct.pack(">I", 3 * size) + struct.pack("<I", size - 8) + noise(chance, 60), size)
    assert host.learner.known[SERVICE].rule == LengthRule(4, 4, False, 8)
    host.learner.tick(BARRED_S + 1)
    assert host.learner.known[SERVICE].rule == LengthRule(4, 4, False, 8)


def test_a_flow_that_was_cut_is_not_held_against_a_rule(host: Host) -> None:
    list(played(host, kafka, flows=50))
    before = host.learner.known[SERVICE]
    chance = random.Random(5)
    for _ in range(50):
        head, size = kafka(chance)
        host.flow(head, size // 2, flags=CUT)
    assert host.learner.known[SERVICE] == before


def test_an_upper_bound_takes_a_thousand_flows_and_999_in_a_thousand(host: Host) -> None:
    list(played(host, kafka, flows=EXACT_FLOWS))
    assert not host.learner.known[SERVICE].is_exact  # some were needed to learn
    list(played(host, kafka, flows=100, seed=6))
    assert host.learner.known[SERVICE].is_exact
    chance = random.Random(7)
    for _ in range(3):
        head, size = kafka(chance)
        host.flow(head, size + 100)
    assert not host.learner.known[SERVICE].is_exact


def test_content_length_has_a_score_and_is_barred_where_it_lies() -> None:
    learner = Learner()
    learner.count(from_records([told(9000, 9000, BY_HTTP)] * 20), 0)
    assert learner.known[SERVICE] == Announced(SERVICE, None, Use.IN_FORCE, Score(exact=20))
    learner.count(from_records([told(9000, 9001, BY_HTTP)] * 20), 5)
    assert learner.known[SERVICE].use is Use.FORBIDDEN
    learner.tick(5 + BARRED_S + 1)
    assert SERVICE not in learner.known


def test_what_an_operator_pins_is_followed_whatever_it_scores() -> None:
    learner = Learner()
    pinned = Announced(SERVICE, LengthRule(0, 4), Use.IN_FORCE, pinned=True)
    learner.follow({SERVICE: pinned})
    learner.count(from_records([told(9000, 9001, BY_RULE)] * 20), 0)
    assert learner.known[SERVICE].rule == pinned.rule
    learner.follow({SERVICE: Announced(SERVICE, None, Use.FORBIDDEN, pinned=True)})
    learner.count(from_records([told(9000, 9001, BY_RULE)] * 20), 0)
    assert learner.known[SERVICE].use is Use.FORBIDDEN


def test_a_rule_of_the_fabric_counts_at_once_until_it_fails_here() -> None:
    learner = Learner()
    given = Announced(SERVICE, LengthRule(0, 4), Use.IN_FORCE, Score(exact=500))
    learner.follow({SERVICE: given})
    assert learner.known == {SERVICE: given}
    learner.count(from_records([told(9000, 9001, BY_RULE)] * 20), 0)
    assert learner.known[SERVICE].asks_for_tags
    learner.tick(BARRED_S + 1)
    assert learner.known == {SERVICE: given}


def test_what_is_told_to_the_orchestrator_is_told_once(host: Host) -> None:
    list(played(host, kafka, flows=50))
    (once,) = host.learner.take_untold()
    assert once == replace(host.learner.known[SERVICE], score=once.score)
    assert once.score.flows > 25
    assert host.learner.take_untold() == []
    list(played(host, kafka, flows=7, seed=8))
    assert host.learner.take_untold()[0].score == Score(exact=7)


def test_a_rule_for_ports_of_the_kernels_choice_is_scored_by_whoever_used_it() -> None:
    """hostd's own range is 40000 to 50000; a program in another network namespace was given 20000."""
    learner = Learner(ports=PortRange(40_000, 50_000))
    everywhere = Announced(replace(SERVICE, port=0), LengthRule(0, 4), Use.IN_FORCE)
    learner.follow({everywhere.service: everywhere})
    for port in (40_000, 50_000, 20_000):
        learner.count(from_records([replace(told(9000, 9000, BY_RULE), local_port=port)]), 0)
    assert learner.known == {everywhere.service: everywhere.scored(Score(exact=3))}
    own = Announced(replace(SERVICE, port=45_000), None, Use.IN_FORCE)
    learner.follow({each.service: each for each in (everywhere, own)})
    learner.count(from_records([replace(told(9000, 9000, BY_HTTP), local_port=45_000)]), 0)
    assert learner.known[own.service].score == Score(exact=1)


def test_memory_is_bounded(core: Core) -> None:
    learner = Learner()
    chance = random.Random(9)
    for number in range(1_000):
        head = noise(chance, 64)
        service = Service("p", 1, number)
        learner.propose(Proposal(service, 1 << 20, 10, core.candidates(head, 1 << 20)))
        learner.count(from_records([replace(told(900, 900, BY_HTTP, 10), local_port=number)]), 0)
    assert len(learner.known) <= 256
    assert len(learner._candidates) <= 256
