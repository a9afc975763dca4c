"""hostd as a process, beside an orchestrator that is a stand-in."""

import json
import os
import signal
import stat
import struct
import subprocess
import time
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from qclimb.hostfile import MODEL_HEADER, MODEL_MAGIC, decode_policy, encode_policy
from qclimb.record import RecordBatch

from tests.hostd.bench import BIN, TOKEN, Hostd, StandIn, policy, record
from tests.waiting import wait_until


def model(generation: int, trees: int = 2, nodes: int = 6) -> bytes:
    """A model file whose outside is right: what hostd has to judge."""
    told = {"magic": MODEL_MAGIC, "version": 1, "header_bytes": MODEL_HEADER.size, "generation": generation}
    told |= {"trees": trees, "depth": 2, "nodes": nodes, "leaves": nodes, "features": 2}
    body = MODEL_HEADER.pack(told | {"feature_id": bytes([0, 1]), "reserved": 0}) + bytes(4 * trees + 20 * nodes)
    return body + struct.pack("<I", zlib.crc32(body))


def test_a_new_policy_reaches_the_disk_and_the_heartbeat_names_it(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(7)
    standin.policy = policy(8, slack_bytes=1)
    wait_until(lambda: standin.heartbeats(8))
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(8, slack_bytes=1)
    found = wait_until(lambda: hostd.state().get("policy_generation") == 8 and hostd.state())
    assert (found["mode"], found["error"]) == ("pias", "")


def test_a_model_is_beside_the_policy_that_names_it(hostd: Hostd, standin: StandIn) -> None:
    standin.forests[5] = model(5)
    standin.policy = policy(9, model_generation=5)
    wait_until(lambda: standin.heartbeats(9))
    assert (hostd.run_dir / "model").read_bytes() == model(5)
    fetched = standin.requests.count("GET /v1/models/5/forest")
    standin.policy = policy(10, model_generation=5)
    wait_until(lambda: standin.heartbeats(10))
    assert fetched == standin.requests.count("GET /v1/models/5/forest") == 1


def test_bounds_that_are_off_keep_the_model_and_stand_in_the_status(hostd: Hostd, standin: StandIn) -> None:
    standin.forests[5] = model(5)
    standin.policy = policy(9, model_generation=5)
    wait_until(lambda: standin.heartbeats(9))
    assert not hostd.state()["bounds_off"]
    standin.policy = policy(10, model_generation=5, use_forest=False)
    wait_until(lambda: hostd.state().get("policy_generation") == 10)
    assert hostd.state()["bounds_off"]
    assert "generation 5, bounds off" in started("status", "--run-dir", hostd.run_dir).stdout
    assert (hostd.run_dir / "model").read_bytes() == model(5)
    assert standin.requests.count("GET /v1/models/5/forest") == 1


damaged = bytearray(model(5))
damaged[60] ^= 1


@pytest.mark.parametrize(
    ("answer", "forest", "complaint"),
    [
        (b"<html>", None, "policy from the orchestrator: Expecting value"),
        (b"[" * 60000, None, "policy from the orchestrator"),
        (b'{"generation": 9, "colour": 1}', None, "colour"),
        (json.dumps(policy(9).to_json()).encode().replace(b"47", b"99"), None, "dscp[0] is 99"),
        (b"x" * (1 << 17), None, "more than 65536 bytes"),
        (None, bytes(damaged), "model 5 from the orchestrator: model file crc32"),
        (None, model(6), "model's generation is 6, expected 5"),
        (None, b"", "model file has 0 bytes"),
        (None, None, "404"),
    ],
)
def test_a_damaged_answer_changes_nothing_and_its_reason_stands_in_the_status(
    hostd: Hostd, standin: StandIn, answer: bytes | None, forest: bytes | None, complaint: str
) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    if forest is not None:
        standin.forests[5] = forest
    beats = standin.heartbeats(7)
    standin.policy = answer or policy(9, model_generation=5)
    wait_until(lambda: complaint in hostd.state()["error"])
    wait_until(lambda: standin.heartbeats(7) >= beats + 2)  # it still reports, and what it reports is the last good one
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(7)
    assert not (hostd.run_dir / "model").exists()
    assert hostd.process.poll() is None
    standin.policy = policy(11)
    wait_until(lambda: standin.heartbeats(11))
    wait_until(lambda: hostd.state()["error"] == "")
    assert complaint in hostd.state()["last_error"]


def test_an_unchanged_policy_is_neither_sent_nor_written_again(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7) >= 5)
    file = (hostd.run_dir / "policy").stat()
    hostd.kill()
    hostd.restart()
    beats = standin.heartbeats(7)
    wait_until(lambda: standin.heartbeats(7) >= beats + 3)
    again = (hostd.run_dir / "policy").stat()
    assert (file.st_ino, file.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)
    assert standin.connections == 2  # one a life of hostd: the connection is kept


def test_a_policy_that_somebody_removed_or_changed_comes_back(hostd: Hostd, standin: StandIn) -> None:
    standin.forests[5] = model(5)
    standin.policy = policy(7, model_generation=5)
    wait_until(lambda: standin.heartbeats(7))
    for name in ("policy", "model"):
        path = hostd.run_dir / name
        content = path.read_bytes()
        path.unlink()
        wait_until(lambda path=path, content=content: path.exists() and path.read_bytes() == content)
        path.write_bytes(b"nonsense")
        wait_until(lambda path=path, content=content: path.read_bytes() == content)


def test_a_damaged_file_at_start_is_replaced(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    hostd.kill()
    (hostd.run_dir / "policy").write_bytes(encode_policy(policy(7))[:100])
    standin.policy = None
    hostd.restart()
    wait_until(lambda: standin.heartbeats(0) > 1)
    standin.policy = policy(7)
    wait_until(lambda: hostd.state()["policy_generation"] == 7)
    assert decode_policy((hostd.run_dir / "policy").read_bytes()) == policy(7)


def test_killed_in_the_middle_of_rollouts_it_leaves_a_whole_policy_and_goes_on_from_it(
    hostd: Hostd, standin: StandIn
) -> None:
    generation = 0
    for life in range(5):
        for _ in range(life + 1):
            generation += 1
            standin.policy = policy(generation)
            wait_until(lambda generation=generation: standin.heartbeats(generation))
        standin.policy = policy(generation + 1)
        hostd.kill()
        found = decode_policy((hostd.run_dir / "policy").read_bytes())
        assert found.generation in (generation, generation + 1)
        standin.stop()
        hostd.restart()
        wait_until(lambda: hostd.state()["pid"] == hostd.process.pid)
        assert hostd.state()["policy_generation"] == found.generation
        standin.start()


def test_a_new_token_is_taken_up_without_a_restart_and_none_is_ever_shown(
    hostd: Hostd, standin: StandIn, token_file: Path
) -> None:
    wait_until(lambda: standin.posts)
    standin.token = "another-Token_9876543210"
    wait_until(lambda: "401 token is not known" in hostd.state()["error"])
    token_file.write_text(standin.token)
    beats = len(standin.posts)
    wait_until(lambda: len(standin.posts) > beats)
    shown = hostd.log.read_text() + (hostd.run_dir / "status.json").read_text()
    assert TOKEN not in shown
    assert standin.token not in shown


def test_when_told_to_end_it_delivers_what_it_has_and_removes_nothing(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    for size in range(1, 100):  # so that it leaves its socket alone for a while each time
        hostd.send(RecordBatch((record(size),)))
        time.sleep(0.001)
    hostd.process.send_signal(signal.SIGSTOP)
    hostd.send(RecordBatch((record(100),)))
    hostd.process.send_signal(signal.SIGTERM)
    hostd.process.send_signal(signal.SIGCONT)
    assert hostd.process.wait(60) == 0
    assert [found.size_bytes for found in standin.records] == list(range(1, 101))
    assert {"policy", "records", "status.json"} <= {found.name for found in hostd.run_dir.iterdir()}


def test_the_socket_may_be_written_by_all_and_nothing_else_by_others(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: standin.heartbeats(7))
    modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in hostd.run_dir.iterdir()}
    assert modes["records"] == 0o622
    assert stat.S_IMODE(hostd.run_dir.stat().st_mode) == 0o755
    assert not any(mode & 0o022 for name, mode in modes.items() if name != "records")


def started(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A hostd that ought to give up by itself."""
    return subprocess.run(
        [BIN / "qclimb-hostd", *arguments], capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )


def test_a_second_hostd_for_a_directory_is_refused(hostd: Hostd, standin: StandIn, token_file: Path) -> None:
    done = started(
        *("--name", "h1", "--orchestrator", standin.url, "--token-file", token_file, "--run-dir", hostd.run_dir)
    )
    assert done.returncode == 2
    assert "another qclimb-hostd serves" in done.stderr
    hostd.send(RecordBatch((record(5),)))  # the first one still has the socket
    wait_until(lambda: standin.records)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"--orchestrator": "http://198.51.100.1:8443"}, "expected https://"),
        ({"--orchestrator": "198.51.100.1:8443"}, "expected https://ADDRESS:PORT"),
        ({"--orchestrator": "https://[:::]:1"}, "expected https://ADDRESS:PORT"),
        ({"--orchestrator": "https://me:secret@198.51.100.1"}, "has a user or a password"),
        ({"--orchestrator": "https://198.51.100.1:99999"}, "expected https://ADDRESS:PORT"),
        ({"--token-file": "/no/such/file"}, "expected a file of mode 0600"),
        ({"--token-file": "loose"}, "expected 0600"),
        ({"--token-file": "empty"}, "no token in it"),
        ({"--token-file": "two lines"}, "no token in it"),
        ({"--ca": "empty"}, "expected PEM certificates"),
        ({"--run-dir": "loose"}, "is a file"),
        ({"--poll-interval-s": "0"}, "0.05"),
        ({"--poll-interval-s": "nan"}, "expected"),
        ({"--name": ""}, "expected a name"),
        ({"--tagger-dev": "none"}, "--kernel CGROUP"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    tmp_path: Path, token_file: Path, change: dict[str, str], complaint: str
) -> None:
    for name, content in (("loose", TOKEN), ("empty", ""), ("two lines", "a\nb")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o644 if name == "loose" else 0o600)
    options = {"--name": "h1", "--orchestrator": "https://127.0.0.1:1", "--token-file": str(token_file)}
    options |= {"--run-dir": str(tmp_path / "run")} | change
    for option, value in change.items():
        if (tmp_path / value).exists() and value:
            options[option] = str(tmp_path / value)
    done = started(*(part for pair in options.items() for part in pair))
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert TOKEN not in done.stderr


def test_a_setting_that_an_older_version_had_is_named_and_keeps_nothing_from_its_start(tmp_path: Path) -> None:
    settings = tmp_path / "hostd.toml"
    settings.write_text('name = "h1"\norchestrator = "198.51.100.1"\ntoken_file = "token"\nquickack_dev = ["eth0"]\n')
    done = started("--config", settings)
    assert "Warning: --quickack-dev " in done.stderr
    assert "expected https://ADDRESS:PORT" in done.stderr, "as far as it comes with these"


def test_an_orchestrator_with_a_certificate_of_others_gets_no_token(
    standin: StandIn, token_file: Path, tmp_path: Path
) -> None:
    ca_file = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(ca_file))
    hostd = Hostd(
        tmp_path,
        *("--name", "h1", "--orchestrator", standin.url, "--ca", str(ca_file), "--token-file", str(token_file)),
    )
    try:
        wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in hostd.state().get("error", ""))
    finally:
        hostd.kill()
    assert standin.requests == []


@pytest.mark.parametrize(("days", "reason"), [(-9, "has expired"), (9, "is not yet valid")])
def test_a_certificate_out_of_its_time_is_told_beside_what_this_hosts_clock_says(
    days: int, reason: str, certificates: trustme.CA, hostd: Hostd, standin: StandIn
) -> None:
    wait_until(lambda: standin.posts)
    now = datetime.now(UTC)
    first = now + timedelta(days=days)
    standin.stop()
    standin.use(certificates.issue_cert("127.0.0.1", not_before=first, not_after=first + timedelta(days=8)))
    standin.start()
    for turn in range(2):  # records wait meanwhile
        hostd.send(RecordBatch((record(1 + turn),)))
    error = wait_until(lambda: found if reason in (found := hostd.state()["error"]) else "")
    assert f"by this host's clock, which says {now:%Y-%m-%d}" in error
    standin.stop()
    standin.use(certificates.issue_cert("127.0.0.1"))
    standin.start()
    wait_until(lambda: len(standin.records) == 2)


def test_status_shows_a_table_or_json_and_tells_a_dead_hostd(hostd: Hostd, standin: StandIn) -> None:
    standin.policy = policy(7)
    wait_until(lambda: hostd.state().get("policy_generation") == 7)
    done = started("status", "--run-dir", hostd.run_dir)
    assert done.returncode == 0
    shown = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in done.stdout.splitlines()}
    assert shown["policy"].startswith("generation 7, written ")
    assert shown["mode"] == "pias"
    assert "h1, runs" in shown["hostd"]
    assert {"model", "records", "drops", "last contact", "error", "last error"} <= set(shown)
    hostd.kill()
    done = started("status", "--run-dir", hostd.run_dir, "--json")
    assert done.returncode == 1
    found = json.loads(done.stdout)
    assert (found["runs"], found["policy_generation"], found["name"]) == (False, 7, "h1")
    done = started("status", "--run-dir", hostd.run_dir / "nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
