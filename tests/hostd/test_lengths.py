"""Learned lengths at hostd: from proposals to the file that libraries read, over restarts, shared by the fabric."""

import json
import random
import signal
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from qclimb.lengthfile import Proposal, decode_lengths, encode_proposal
from qclimb.lengths import Announced, LengthRule, Score, Service, Use
from qclimb.record import BY_HTTP, BY_RULE, BY_TRIAL, RecordBatch

from tests.hostd.bench import BIN, Hostd, StandIn, policy, record
from tests.waiting import wait_until

SERVICE = Service("store", 1, 9000)
RULE = LengthRule(0, 4, True, 4)


def known(hostd: Hostd) -> list[Announced]:
    """What libraries of this host read now."""
    path = hostd.run_dir / "lengths"
    return decode_lengths(path.read_bytes()) if path.exists() else []


def propose(hostd: Hostd, sizes: Iterable[int]) -> None:
    for size in sizes:
        hostd.send(encode_proposal(Proposal(SERVICE, size, 100, (RULE, LengthRule(40, 2, False, size % 97)))))


def tell(hostd: Hostd, flows: int, by: int, more: int = 0) -> None:
    one = record(
        9000, announced_bytes=9000 + more, announced_by=by, first_write_bytes=100, role=1, local_port=9000, comm="store"
    )
    hostd.send(RecordBatch((one,) * flows))


def learn(hostd: Hostd) -> None:
    propose(hostd, range(100_000, 100_005))
    wait_until(lambda: known(hostd) == [Announced(SERVICE, RULE, Use.TRIAL)])
    tell(hostd, 20, BY_TRIAL)
    wait_until(lambda: known(hostd) == [Announced(SERVICE, RULE, Use.IN_FORCE)])


@pytest.fixture
def served(standin: StandIn, hostd: Hostd) -> Hostd:
    standin.policy = policy(1)
    return hostd


def test_a_rule_goes_from_proposals_over_a_trial_into_the_file(served: Hostd) -> None:
    learn(served)
    wait_until(lambda: [each["score"]["exact"] for each in served.state()["lengths"]] == [20])


def test_a_restart_goes_on_with_what_was_learned(served: Hostd) -> None:
    learn(served)
    served.kill(signal.SIGTERM)
    (served.run_dir / "lengths").unlink()
    served.restart()
    wait_until(lambda: known(served) == [Announced(SERVICE, RULE, Use.IN_FORCE)])
    tell(served, 5, BY_RULE, more=1)
    wait_until(lambda: known(served) == [Announced(SERVICE, None, Use.TRIAL)])  # 5 of 25 flows: too often


def test_a_damaged_memory_is_said_and_learning_begins_anew(served: Hostd) -> None:
    served.kill(signal.SIGTERM)
    (served.run_dir / "lengths.json").write_text('[{"program": 3}]')
    served.restart()
    wait_until(lambda: "learning anew" in served.state().get("last_error", ""))
    learn(served)


def test_a_rule_that_was_wrong_is_learned_for_a_type_of_message(served: Hostd) -> None:
    learn(served)
    tell(served, 5, BY_RULE, more=1)
    wait_until(lambda: known(served) == [Announced(SERVICE, None, Use.TRIAL)])
    for size in range(100_000, 100_006):
        served.send(encode_proposal(Proposal(SERVICE, size, 100, (RULE,), ((8, 0), (9, 2)))))
        served.send(encode_proposal(Proposal(SERVICE, size, 100, (), ((8, 0), (9, 3)))))
    tagged = replace(RULE, tag_offset=9, tag=2)
    wait_until(lambda: known(served) == [Announced(SERVICE, tagged, Use.TRIAL)])


def test_ports_of_the_kernels_choice_are_one_service(served: Hostd) -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    one = record(9000, announced_bytes=9000, announced_by=BY_HTTP, first_write_bytes=100, role=1, comm="store")
    for port in (first, (first + last) // 2, last, first - 1):
        served.send(RecordBatch((replace(one, local_port=port),)))
    wait_until(lambda: {each.service.port for each in known(served)} == {0, first - 1})


def test_what_is_no_proposal_is_counted_and_changes_nothing(served: Hostd) -> None:
    good = encode_proposal(Proposal(SERVICE, 9000, 100, (RULE,)))
    served.send(good[:-1])
    served.send(good[:8] + bytes(8) + good[16:])  # smaller than its first write
    served.send(good[:-1] + b"\x07")  # a number of 7 bytes
    served.send(good[:4])
    served.send(good[:43] + b"\x01" + good[44:])  # a tag that does not come
    served.send(good[:43] + b"\x01" + good[44:] + b"\x40\x01")  # at byte 64
    wait_until(lambda: served.state()["malformed"] == 6)
    assert known(served) == []
    learn(served)


def test_hosts_share_what_they_learn_and_an_operators_word_counts(standin: StandIn, served: Hostd) -> None:
    other = Announced(Service("other", 0, 7000), LengthRule(8, 4), Use.IN_FORCE, Score(exact=3000), is_exact=True)
    standin.lengths = [other.to_json()]
    served.kill(signal.SIGTERM)
    served.restart()
    wait_until(lambda: [each.service for each in known(served)] == [other.service])
    assert known(served)[0].is_exact
    propose(served, range(100_000, 100_005))
    tell(served, 20, BY_TRIAL)
    wait_until(lambda: len(known(served)) == 2)
    tell(served, 20, BY_TRIAL)
    pinned = Announced(SERVICE, None, Use.FORBIDDEN, pinned=True)
    standin.lengths = [other.to_json(), pinned.to_json()]
    served.kill(signal.SIGTERM)
    told = [Announced.from_json(each) for each in standin.lengths_told]
    served.restart()
    wait_until(lambda: {each.service: each.use for each in known(served)}.get(SERVICE) is Use.FORBIDDEN)
    assert all(each.service == SERVICE and each.rule == RULE for each in told)


def test_an_older_orchestrator_is_no_error(standin: StandIn, served: Hostd) -> None:
    standin.lengths = None
    learn(served)
    wait_until(lambda: any(line.endswith("/lengths") for line in standin.requests))
    assert not served.state()["error"]


def test_status_lists_services_with_their_scores(served: Hostd) -> None:
    learn(served)
    wait_until(lambda: served.state()["lengths"] and served.state()["lengths"][0]["score"]["exact"] == 20)
    argv = [str(BIN / "qclimb-hostd"), "status", "--run-dir", str(served.run_dir), "--lengths"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert ["lengths", "1", "in", "force"] in [line.split() for line in said.splitlines()]
    row = next(line.split() for line in said.splitlines() if line.startswith("store:accepts:9000"))
    assert row[-4:] == ["20", "100.0", "0.0", "0.0"]
    assert "offset 0, 4 bytes, big endian, +4" in " ".join(row)
    as_json = subprocess.run([*argv, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(as_json)["lengths"][0]["rule"] == RULE.to_json()


def test_random_bytes_behind_the_magic_are_never_taken(served: Hostd, tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(200):
        served.send(struct.pack("<I", 0x31504351) + chance.randbytes(chance.randrange(80)))
    wait_until(lambda: served.state()["malformed"] == 200)
    assert served.process.poll() is None
