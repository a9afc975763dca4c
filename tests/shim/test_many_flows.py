"""Where many small flows end at once a record tells of many of them, and none is missing from their number."""

import subprocess
import time

import pytest
from qclimb.hostfile import decode_records
from qclimb.policy import Mode
from qclimb.record import FOR_MANY, MANY_FLOWS
from stand import ROOT, environment, hostd, policy, put_policy, records_of

TURNS = 20_000
STRETCH_S = 2**26 / 1e9
EACH_MOST, RING = 64, 64  # in a stretch, and that wait: records.c


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    program = tmp_path_factory.mktemp("turns") / "turns"
    subprocess.run(["cc", "-Wall", "-Wextra", "-o", program, ROOT / "tests" / "shim" / "turns.c"], check=True)
    return program


def told_of(run_dir, turns, mode):
    """The records of all flows, those that the library had no room for, and how long they took."""
    put_policy(run_dir, policy(mode))
    with hostd(run_dir) as datagrams:
        began = time.monotonic()
        subprocess.run([turns, str(TURNS)], check=True, env=environment(run_dir))
        took_s = time.monotonic() - began
    return records_of(datagrams), sum(decode_records(datagram).dropped for datagram in datagrams), took_s


@pytest.mark.parametrize("mode", [Mode.PIAS, Mode.QCLIMB])
def test_one_record_tells_of_many_small_flows(run_dir, turns, mode):
    records, dropped, took_s = told_of(run_dir, turns, mode)
    many = [record for record in records if record.flags & FOR_MANY]
    assert len(records) - len(many) <= EACH_MOST * (took_s / STRETCH_S + 2)
    assert len(many) <= 2 * TURNS / MANY_FLOWS + 1
    if not dropped:
        flows = len(records) + (MANY_FLOWS - 1) * len(many)
        assert abs(flows - 2 * TURNS) < MANY_FLOWS
    assert {record.size_bytes for record in records} == {64}
    assert {record.role for record in many} == {0, 1}  # no order of the flows decides


def test_who_observes_tells_of_each(run_dir, turns):
    records, dropped, _ = told_of(run_dir, turns, Mode.OBSERVE)
    assert records and not any(record.flags & FOR_MANY for record in records)
    assert len(records) + dropped <= 2 * TURNS  # what is dropped last nobody tells of
    flows = sum(max(record.flow_index for record in records if record.role == role) + 1 for role in (0, 1))
    assert flows - len(records) <= dropped + RING
