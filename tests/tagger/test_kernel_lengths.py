"""Sizes that programs write into their messages, read by the kernel mode when a flow begins."""

import socket
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hosts import PORTS
from qclimb.lengthfile import encode_lengths
from qclimb.lengths import Announced, LengthRule, Service, Use
from qclimb.policy import Mode
from qclimb.record import BY_RULE, CUT, HAD_LENGTH_BOUND
from scoped import PROGRAMS, kernel_mode
from stand import B, policy

from lab.fabric.netns import entered

pytestmark = pytest.mark.fabric
PROGRAM = Path(sys.executable).name[:15]
RULE = LengthRule(0, 4, constant_bytes=4)
SIZE = 600_000


@contextmanager
def knowing(host, told, *args, **changes):
    """The mode under a policy, with a rule known of a service."""
    with kernel_mode(host, told) as a:
        know(a, *args, **changes)
        a.follow(replace(told, generation=2))
        assert not a.kernel.problem
        yield a


def know(a, port, *, program=PROGRAM, use=Use.IN_FORCE, is_exact=False, rule=RULE):
    found = Announced(Service(program, 0, port), rule, use, is_exact=is_exact)
    a.host.run_dir.joinpath("lengths").write_bytes(encode_lengths([found]))


def talk(a, b, port, actions, answers=()):
    """The records of a program that does these; the other side answers a byte once it has so many."""
    with entered(b.netns):
        server = socket.create_server((B, port))
    before = len(a.records)

    def listen():
        connection, _ = server.accept()
        got, due = 0, list(answers)
        with connection:
            while data := connection.recv(1 << 20):
                got += len(data)
                while due and got >= due[0]:
                    due.pop(0)
                    connection.sendall(b".")

    with server:
        listener = threading.Thread(target=listen)
        listener.start()
        sender = a.start(sys.executable, PROGRAMS / "told.py", B, str(server.getsockname()[1]), *actions)
        assert sender.wait(60) == 0
        listener.join()
    flows = 1 + sum(action in "rp" for action in actions)
    return a.told(before + flows)[before:]


def told_of(records):
    return [(record.size_bytes, record.announced_bytes) for record in records]


def test_a_message_in_small_writes_climbs_by_the_length_that_it_begins_with(pair):
    host, b = pair
    port = next(PORTS)
    with knowing(host, policy(Mode.QCLIMB), port) as a:
        assert "lengths of services: 1" in a.kernel.status
        (record,) = talk(a, b, port, [str(SIZE)])
    assert told_of([record]) == [(SIZE, SIZE)]
    assert record.announced_by == BY_RULE
    assert record.flags & HAD_LENGTH_BOUND
    assert record.last_priority == 0, "it ends where a flow of that size has its last byte"


def test_messages_after_turns_are_read_and_what_is_left_after_a_pause_is_known(pair):
    host, b = pair
    port = next(PORTS)
    with knowing(host, policy(Mode.QCLIMB, flow_gap_us=100_000), port, is_exact=True) as a:
        found = talk(a, b, port, ["50000", "r", f"{SIZE}/200000", "p", "+400000", "p", "7000"], [50_000])
    assert told_of(found) == [(50_000, 50_000), (200_000, SIZE), (400_000, 400_000), (7_000, 7_000)]
    assert [bool(record.flags & CUT) for record in found] == [False, True, False, False]


@pytest.mark.parametrize(
    "changes",
    [{"program": "another"}, {"use": Use.TRIAL}, {"use": Use.FORBIDDEN, "rule": None}, {"rule": LengthRule(40, 8)}],
)
def test_of_others_nothing_is_known(pair, changes):
    host, b = pair
    port = next(PORTS)
    with knowing(host, policy(Mode.QCLIMB), port, **changes) as a:
        assert told_of(talk(a, b, port, [str(SIZE)])) == [(SIZE, 0)]


def test_ports_of_the_kernels_choice_are_one_service_and_a_rule_that_goes_is_forgotten(pair):
    host, b = pair
    with knowing(host, policy(Mode.QCLIMB), 0) as a:
        assert told_of(talk(a, b, 0, [str(SIZE)])) == [(SIZE, SIZE)]
        host.run_dir.joinpath("lengths").unlink()
        a.follow(policy(Mode.QCLIMB, generation=2))
        assert told_of(talk(a, b, 0, [str(SIZE)])) == [(SIZE, 0)]


@pytest.mark.parametrize("words", [{"mode": Mode.PIAS}, {"mode": Mode.QCLIMB, "without_lengths": True}])
def test_where_the_policy_asks_for_no_lengths_no_byte_is_read(pair, words):
    host, b = pair
    port = next(PORTS)
    with knowing(host, policy(**words), port) as a:
        assert told_of(talk(a, b, port, [str(SIZE)])) == [(SIZE, 0)]


def test_a_damaged_file_is_named_and_the_rules_before_stay(pair):
    host, b = pair
    port = next(PORTS)
    with knowing(host, policy(Mode.QCLIMB), port) as a:
        path = host.run_dir / "lengths"
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
        a.follow(policy(Mode.QCLIMB, generation=2))
        assert f"{path}: lengths file crc32" in a.kernel.status
        assert not a.kernel.problem
        assert told_of(talk(a, b, port, [str(SIZE)])) == [(SIZE, SIZE)]
