"""What any local user may send to the records socket: it says nothing of others' flows, and costs bounded work."""

import array
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from qclimb.hostfile import encode_records
from qclimb.lengthfile import Proposal, encode_proposal
from qclimb.lengths import LengthRule, Service
from qclimb.loops import EXIT_STATUS
from qclimb.record import BY_HTTP, RecordBatch
from qclimb.record_rows import from_records

from hostlib.hostd import reported
from hostlib.hostd.cli import main
from hostlib.hostd.collected import Collected
from hostlib.hostd.inbox import FIRST_PID_NAMESPACE, PROPOSALS_OF_USER, Inbox
from hostlib.hostd.learning import BARRED_MOST, CANDIDATES_IN_ALL, SERVICES_MOST, Learner
from hostlib.hostd.reported import HeldRows, ReportedConnections
from hostlib.hostd.state import State
from tests.hostd.bench import record

NOBODY = 4747


class Proposals(Learner):
    """Counts what it is handed."""

    count_of_proposals = 0

    def propose(self, proposal: Proposal) -> None:
        self.count_of_proposals += 1


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    made = Inbox(tmp_path / "records", beside_kernel=True)
    yield made
    made.close()


def send(tmp_path: Path, content: bytes, *descriptors: int) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.connect(str(tmp_path / "records"))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        sender.sendmsg([content], rights)


def kernel_rows(pid: int, *cookies: int) -> np.ndarray:
    return from_records([record(100, pid=pid, connection=cookie) for cookie in cookies])


def test_a_record_hides_the_senders_own_sockets_from_the_kernels_count_alone(inbox: Inbox, tmp_path: Path) -> None:
    claimed = [record(100, pid=pid, connection=7) for pid in (os.getpid(), NOBODY)]
    send(tmp_path, encode_records(RecordBatch((*claimed, record(100, pid=NOBODY, connection=8)))))
    inbox.read(Collected(), Learner())
    assert inbox.reported is not None
    own, others = (inbox.reported.covers(kernel_rows(pid, 7, 8, 9)).tolist() for pid in (os.getpid(), NOBODY))
    assert own == [True, True, False]
    is_in_first_namespace = Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE
    assert others == ([False] * 3 if is_in_first_namespace else own)


def test_where_processes_have_other_numbers_the_cookie_alone_tells() -> None:
    connections = ReportedConnections(knows_pids=False)
    connections.add(kernel_rows(7, 70), np.zeros(1, np.uint32), 1.0)
    assert connections.covers(kernel_rows(1234, 70, 71)).tolist() == [True, False]


def test_connections_are_kept_for_a_while_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reported, "CONNECTIONS_MOST", 10)
    connections = ReportedConnections(knows_pids=True)
    for cookie in range(100):
        connections.add(kernel_rows(1, cookie), np.ones(1, np.uint32), 1.0)
    assert 10 <= connections.covers(kernel_rows(1, *range(100))).sum() <= 20
    for later in (40.0, 80.0):
        connections.add(kernel_rows(1, 4747), np.ones(1, np.uint32), later)
    assert connections.covers(kernel_rows(1, 99, 4747)).tolist() == [False, True]


def test_the_kernels_rows_wait_until_a_library_had_time_to_tell_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldRows()
    held.add(kernel_rows(1, 1), np.ones(1, np.uint64), 10.0)
    held.add(kernel_rows(1, 2, 3), np.ones(2, np.uint64), 10.5)
    assert len(held.take(10.9)[0]) == 0
    assert held.take(11.0)[0]["connection"].tolist() == [1]
    monkeypatch.setattr(reported, "HELD_MOST", 1)
    assert held.take(11.0)[0]["connection"].tolist() == [2, 3]


def test_no_descriptor_comes_in(inbox: Inbox, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        send(tmp_path, encode_records(RecordBatch((record(1),))), 0, 1, 2)
    assert inbox.read(Collected(), Learner()) == 5
    assert inbox.records == 5
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_user_has_so_many_proposals_a_second(inbox: Inbox, tmp_path: Path) -> None:
    learner = Proposals()
    content = encode_proposal(Proposal(Service("p", 1, 9), 100_000, 100, (LengthRule(0, 4),)))
    for _ in range(PROPOSALS_OF_USER + 20):
        send(tmp_path, content)
        inbox.read(Collected(), learner)
    assert learner.count_of_proposals >= PROPOSALS_OF_USER
    inbox.read(Collected(), learner)
    assert inbox.malformed == 0


def test_services_that_nobody_has_fill_no_table() -> None:
    learner = Learner()
    for is_wrong in (False, True):
        rows = from_records(
            record(
                900,
                comm=f"p{number}",
                local_port=number,
                role=1,
                first_write_bytes=10,
                announced_by=BY_HTTP,
                announced_bytes=900 + is_wrong,
            )
            for number in range(3_000)
            for _ in range(2)
        )
        for begin in range(0, len(rows), 200):
            learner.count(rows[begin : begin + 200], 1.0)
    assert 0 < len(learner.known) <= SERVICES_MOST + BARRED_MOST
    assert len(learner.take_untold()) <= SERVICES_MOST
    learner.tick(10_000.0)
    assert len(learner.known) <= SERVICES_MOST


def test_candidates_of_all_services_together_are_bounded() -> None:
    learner = Learner()
    for number in range(2_000):
        rules = tuple(LengthRule(offset, 4, constant_bytes=number % 4096) for offset in range(60))
        learner.propose(Proposal(Service(f"p{number % 100}", 1, 9), 100_000, 100, rules))
    assert sum(len(each.flows) for each in learner._candidates.values()) <= CANDIDATES_IN_ALL


NAMED = """
import ctypes, socket
ctypes.CDLL(None).prctl(15, b"\\xff\\x1b[31m", 0, 0, 0)
listener = socket.create_server(("127.0.0.1", 0))
print("up", flush=True)
input()
"""


def test_status_shows_programs_of_any_name_and_steers_no_terminal(tmp_path: Path) -> None:
    state = State(name="h1", orchestrator="", pid=1, started_at=0.0, poll_interval_s=1.0)
    state.last_malformed = "\x1b[2J\u202e"
    state.write(tmp_path / "status.json")
    with subprocess.Popen(
        [sys.executable, "-c", NAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as named:
        assert named.stdout is not None
        assert named.stdout.readline() == "up\n"
        said = CliRunner().invoke(main, ["status", "--run-dir", str(tmp_path), "--programs", "--lengths"])
        named.communicate()
    assert said.exit_code == 1, said.output  # none runs
    assert f"(pid {named.pid})" in said.output
    assert not {"\x1b", "\u202e", "\ufffd"} & set(said.output)


DIES = """
import sys
from hostlib.hostd.cli import main
from hostlib.hostd.daemon import Daemon
def dies(*_): raise RuntimeError("a defect")
setattr(Daemon, sys.argv.pop(1), dies)
main()
"""


@pytest.mark.parametrize("thread", ["_talk", "_poll_once", "_write_lengths"])
def test_hostd_ends_where_its_thread_does(tmp_path: Path, token_file: Path, thread: str) -> None:
    argv = ["--name", "h1", "--orchestrator", "http://127.0.0.1:9", "--token-file", token_file, "--run-dir", tmp_path]
    done = subprocess.run(
        [sys.executable, "-c", DIES, thread, *map(str, argv)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == EXIT_STATUS
    assert "thread=orchestrator event=died" in done.stderr
