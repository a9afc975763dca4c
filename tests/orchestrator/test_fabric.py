"""The orchestrator as a process, with TLS, over real switchd processes, each with a redis-server."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent

from tests.forked import ORCHESTRATOR, Forked
from tests.orchestrator.sonic_gnmi import SonicGnmi, serving
from tests.switchd.stand import PLATFORM, Daemon, Pki, Redis, running_daemon, running_redis
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")

DEADLINE_S = 120.0
ORDERED = (sys.executable, "-m", ORCHESTRATOR)


@dataclass
class Orchestrator:
    """qclimb-orchestrator as a process; it can be killed and started again over the same database."""

    folder: Path
    pki: Path
    certificate: str = "orchestrator"
    hosts_deadline_s: int = 120
    process: "Forked | subprocess.Popen[bytes]" = field(init=False)
    more: dict[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    """It is run from nothing by this; else forked."""
    port: str = ""
    awaits: str = " ready "
    """What its log says once it may be asked."""

    def start(self) -> "Orchestrator":
        certificate = self.pki / self.certificate
        options = {
            "--listen": "127.0.0.1:0",
            "--database": f"sqlite:///{self.folder / 'store.db'}",
            "--tls-cert": self.pki / "server.pem",
            "--tls-key": self.pki / "server.key",
            "--switch-cert": f"{certificate}.pem",
            "--switch-key": f"{certificate}.key",
            "--switch-ca": self.pki / "ca.pem",
            "--bootstrap-token-file": self.folder / "token",
            "--switch-deadline-s": 60,
            "--hosts-deadline-s": self.hosts_deadline_s,
            "--spines-every-s": 0.1,
            **self.more,
        }
        words = [str(word) for pair in options.items() for word in pair]
        self.log = self.folder / f"log-{time.monotonic_ns()}"
        if self.command:
            with self.log.open("w") as stderr:
                self.process = subprocess.Popen([*self.command, "serve", *words], stderr=stderr)
        else:
            self.log.touch()
            self.process = Forked(ORCHESTRATOR, ["serve", *words], self.log)
        ready = wait_until(
            lambda: (
                self.process.poll() is not None
                or [line for line in self.log.read_text().splitlines() if self.awaits in line]
            ),
            "the orchestrator is ready",
        )
        assert self.process.poll() is None, self.log.read_text()
        self.port = ready[0].partition("listen=127.0.0.1:")[2].split()[0]
        self.http = self.client() if (self.folder / "token").exists() else httpx.Client()
        return self

    def client(self) -> httpx.Client:
        """One for one thread, to the process that runs now."""
        token = (self.folder / "token").read_text().strip()
        return httpx.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            verify=ssl.create_default_context(cafile=self.pki / "ca.pem"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=DEADLINE_S,
        )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def revise(self, **body: Any) -> int:
        wanted = {"priorities": 3, "thresholds": [5000, 500_000], "queues": [3, 2, 1], **body}
        return int(self.ask("POST", "/v1/revisions", wanted)["id"])

    def roll_out(self, revision: int) -> int:
        return int(self.ask("POST", "/v1/rollouts", {"revision": revision})["id"])

    def ended(self, rollout: int) -> dict[str, Any]:
        """The rollout once it has ended; meanwhile host h1 follows what it is told."""

        def end() -> dict[str, Any] | None:
            policy = self.http.get("/v1/hosts/h1/policy")
            if policy.status_code == 200:
                self.ask("POST", "/v1/hosts/h1/records", {"policy_generation": policy.json()["generation"]})
            found = self.ask("GET", f"/v1/rollouts/{rollout}")
            return found if found["phase"] != "running" else None

        return dict(wait_until(end, f"rollout {rollout} ends"))

    def kill(self) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait()


@dataclass
class Stand:
    """Two switches l1, l2 and a host h1, known to the orchestrator."""

    orchestrator: Orchestrator
    redis: list[Redis]
    daemons: list[Daemon]

    def generation(self, switch: int) -> int | None:
        """What the switch's own tables ask for."""
        rows = self.redis[switch].rows("QCLIMB", "QCLIMB_CLASS", "QCLIMB_PATH")
        with suppress(IntentError):  # its rows are read one after another: half of them may be of before
            return SwitchIntent.from_config_db(rows).generation if rows["QCLIMB"] else None
        return None

    def scheduled(self, switch: int) -> dict[str, dict[str, str]]:
        return self.redis[switch].rows("QUEUE")["QUEUE"]


@pytest.fixture
def orchestrator(tmp_path: Path, pki: Path) -> Iterator[Orchestrator]:
    started = Orchestrator(tmp_path, pki).start()
    yield started
    if started.process.poll() is None:
        started.kill()


@pytest.fixture
def stand(orchestrator: Orchestrator, pki: Path, tmp_path: Path) -> Iterator[Stand]:
    with ExitStack() as stack:
        found = Stand(orchestrator, [], [])
        for name in ("l1", "l2"):
            redis = stack.enter_context(running_redis())
            redis.load(PLATFORM)
            daemon = stack.enter_context(running_daemon(redis.url, Pki(pki), tmp_path / f"{name}.log"))
            found.redis.append(redis)
            found.daemons.append(daemon)
            orchestrator.ask("PUT", f"/v1/switches/{name}", {"address": f"127.0.0.1:{daemon.port}", "role": "leaf"})
        orchestrator.ask("PUT", "/v1/hosts/h1")
        yield found


def test_an_intent_reaches_the_switches_rows_and_then_the_host(stand):
    one = stand.orchestrator
    rollout = one.ended(one.roll_out(one.revise()))
    assert rollout["phase"] == "done", rollout
    assert {step["phase"] for step in rollout["switches"].values()} == {"applied"}
    assert [stand.generation(switch) for switch in (0, 1)] == [rollout["generation"]] * 2
    assert {key.split("|")[1] for key in stand.scheduled(0)} >= {"1", "2", "3"}
    assert one.ask("GET", "/v1/switches")[0]["applied_generation"] == rollout["generation"]
    again = one.ended(one.roll_out(1))  # the same revision once more is a new generation
    assert (again["phase"], again["generation"]) == ("done", again["generation"])
    assert again["generation"] > rollout["generation"]


def test_when_one_switch_is_down_the_other_gets_back_what_it_had_and_hosts_keep_their_policy(stand):
    one = stand.orchestrator
    assert one.ended(one.roll_out(one.revise()))["phase"] == "done"
    before = stand.redis[0].rows("QCLIMB", "QCLIMB_CLASS", "QUEUE", "DSCP_TO_TC_MAP")
    stand.daemons[1].process.terminate()
    stand.daemons[1].process.wait()
    rollout = one.ended(one.roll_out(one.revise(thresholds=[7000, 700_000], queues=[6, 5, 4])))
    assert rollout["phase"] == "rolled-back"
    assert rollout["switches"]["l2"]["error"].endswith("Connection refused")
    assert rollout["switches"]["l1"]["phase"] in ("restored", "pending", "failed")
    assert stand.redis[0].rows("QCLIMB", "QCLIMB_CLASS", "QUEUE", "DSCP_TO_TC_MAP") == before
    assert one.ask("GET", "/v1/hosts/h1/policy")["threshold_bytes"] == [5000, 500_000]


def test_a_switch_that_has_sonics_door_alone_is_rolled_out_and_undone_with_the_others(stand, pki, tmp_path):
    one = stand.orchestrator
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis())
        redis.load(PLATFORM)
        stack.enter_context(running_daemon(redis.url, Pki(pki), tmp_path / "l3.log", "--quiet-s", "0.5"))
        stand.redis.append(redis)
        servicer = SonicGnmi(redis)
        port = stack.enter_context(serving(servicer, pki))
        one.ask("PUT", "/v1/switches/l3", {"address": f"127.0.0.1:{port}", "role": "leaf"})
        rollout = one.ended(one.roll_out(one.revise()))
        assert rollout["phase"] == "done", rollout
        first = rollout["generation"]
        assert [stand.generation(switch) for switch in (0, 1, 2)] == [first] * 3
        assert servicer.sets and {key.split("|")[1] for key in stand.scheduled(2)} >= {"1", "2", "3"}
        servicer.fails_after = 1
        rollout = one.ended(one.roll_out(one.revise(thresholds=[7000, 700_000], queues=[6, 5, 4])))
        assert rollout["phase"] == "rolled-back"
        assert "some parts not updated" in rollout["switches"]["l3"]["error"]
        assert {step["phase"] for step in rollout["switches"].values()} == {"restored"}
        assert [stand.generation(switch) for switch in (0, 1, 2)] == [first] * 3


def test_a_switch_that_had_nothing_has_nothing_again_after_a_roll_back(stand):
    one = stand.orchestrator
    slow = socket.create_server(("127.0.0.1", 0))  # takes connections, never says a word
    one.ask("PUT", "/v1/switches/l2", {"address": f"127.0.0.1:{slow.getsockname()[1]}"})
    before = stand.redis[0].rows("QUEUE", "DSCP_TO_TC_MAP", "SCHEDULER", "PORT_QOS_MAP")
    for _ in range(6):  # on a machine that is busy the other switch, too, may be given up after 3 s
        rollout = one.ended(one.roll_out(one.revise()))
        if rollout["switches"]["l1"]["phase"] == "restored":
            break
    assert rollout["phase"] == "rolled-back"
    assert rollout["switches"]["l1"]["phase"] == "restored"
    assert "no answer within 3.0 s" in rollout["switches"]["l2"]["error"]
    assert stand.generation(0) is None
    wait_until(
        lambda: stand.redis[0].rows("QUEUE", "DSCP_TO_TC_MAP", "SCHEDULER", "PORT_QOS_MAP") == before,
        "the switch has no rows of qclimb's",
    )


def test_an_intent_that_switches_refuse_is_refused_with_their_reason(stand):
    one = stand.orchestrator
    rollout = one.ended(one.roll_out(one.revise(ports=["Ethernet999"])))
    assert rollout["phase"] == "rolled-back"
    assert "Ethernet999" in rollout["error"]
    assert [stand.generation(switch) for switch in (0, 1)] == [None, None]


@pytest.mark.parametrize(("certificate", "reason"), [("viewer", "PERMISSION_DENIED"), ("forger", "TLS")])
def test_a_certificate_without_the_right_changes_nothing(stand, certificate, reason):
    one = stand.orchestrator
    revision = one.revise()
    one.kill()
    one.certificate = certificate
    rollout = one.start().ended(one.roll_out(revision))
    assert rollout["phase"] == "rolled-back"
    assert reason in rollout["error"]
    assert stand.generation(0) is None


def test_killed_while_switches_change_its_next_start_goes_on(stand):
    one = stand.orchestrator
    one.ended(one.roll_out(one.revise()))
    revision = one.revise(queues=[6, 5, 4])
    for _ in range(6):  # it waits 3 s for the other switch: a machine that is slower ends the rollout before the kill
        os.kill(stand.daemons[1].process.pid, signal.SIGSTOP)
        rollout = one.roll_out(revision)
        wanted = one.ask("GET", f"/v1/rollouts/{rollout}")["generation"]

        def changes(rollout: int = rollout, wanted: int = wanted) -> bool:
            phase = one.ask("GET", f"/v1/rollouts/{rollout}")["phase"]
            return stand.generation(0) == wanted or phase != "running"

        wait_until(changes, "the first switch has the new intent")
        one.kill()
        os.kill(stand.daemons[1].process.pid, signal.SIGCONT)
        ended = one.start().ended(rollout)
        if ended["phase"] == "done":
            break
    assert ended["phase"] == "done"
    assert [stand.generation(switch) for switch in (0, 1)] == [wanted, wanted]
    assert one.ask("GET", "/v1/state")["policy_generation"] == wanted


def test_killed_while_hosts_fetch_it_awaits_them_at_its_next_start(stand):
    one = stand.orchestrator
    rollout = one.roll_out(one.revise())
    wait_until(lambda: one.http.get("/v1/hosts/h1/policy").status_code == 200, "the policy is in force")
    one.kill()
    one.start()
    assert one.ask("GET", f"/v1/rollouts/{rollout}")["phase"] == "running"
    ended = one.ended(rollout)
    assert ended["phase"] == "done"
    assert one.ask("GET", "/v1/hosts/h1/policy")["generation"] == ended["generation"]


def test_killed_while_requests_with_keys_are_under_way_each_is_done_once_and_answered_alike(orchestrator):
    """Each is repeated until it is answered: what a kill left is all of it, its answer and its note, or nothing."""
    orchestrator.ask("PUT", "/v1/hosts/h1")
    answers: dict[str, list[tuple[dict[str, Any], Any]]] = {"/v1/revisions": [], "/v1/hosts/h1/records": []}
    ends = threading.Event()

    def post(client: httpx.Client, path: str, number: int, body: dict[str, Any]) -> Any:
        answer = client.post(path, json=body, headers={"Idempotency-Key": f"{number}"})
        assert answer.is_success, answer.text
        return answer.json()

    def ask(path: str) -> None:
        client = orchestrator.client()
        while not ends.is_set():
            number = len(answers[path])
            flow = {"start_ns": 1, "last_write_ns": 1, "size_bytes": 1 + number}
            body = {"records": [flow]} if "records" in path else {"priorities": 2, "thresholds": [1 + number]}
            answered = None
            while answered is None:
                try:
                    answered = post(client, path, number, body)
                except httpx.HTTPError:  # it is away
                    time.sleep(0.01)
                    client.close()
                    client = orchestrator.client()
            answers[path].append((body, answered))
        client.close()

    asking = [threading.Thread(target=ask, args=(path,), daemon=True) for path in answers]
    for each in asking:
        each.start()
    for _ in range(3):
        so_far = [len(found) for found in answers.values()]
        wait_until(
            lambda so=so_far: all(len(f) > n + 3 for f, n in zip(answers.values(), so, strict=True)), "some are done"
        )
        orchestrator.kill()
        orchestrator.start()
    ends.set()
    for each in asking:
        each.join(DEADLINE_S)
        assert not each.is_alive()
    revisions, flows = answers["/v1/revisions"], answers["/v1/hosts/h1/records"]
    for number, (body, answered) in enumerate(revisions):
        assert post(orchestrator.http, "/v1/revisions", number, body) == answered
    assert [answered["id"] for _, answered in revisions] == [1 + number for number in range(len(revisions))]
    assert len(orchestrator.ask("GET", "/v1/revisions")) == len(revisions)
    noted = [note["action"] for note in orchestrator.ask("GET", "/v1/audit?last=1000")]
    assert noted.count("make-revision") == len(revisions)
    found = orchestrator.ask("GET", "/v1/flows/statistics")
    assert (found["flows"], found["records"]["received"], found["records"]["kept"]) == (len(flows),) * 3


def test_a_silent_host_is_named(orchestrator):
    orchestrator.ask("PUT", "/v1/hosts/h1")
    orchestrator.ask("PUT", "/v1/hosts/h2")
    orchestrator.kill()
    orchestrator.hosts_deadline_s = 4  # enough for a host that answers at once
    orchestrator.start()
    rollout = orchestrator.ended(orchestrator.roll_out(orchestrator.revise()))
    assert rollout["phase"] == "failed"
    assert "hosts h2" in rollout["error"]
    assert rollout["hosts"]["h1"]["phase"] == "applied"


def test_the_first_token_is_its_owners_and_logs_keep_no_secret(orchestrator, tmp_path):
    token = (tmp_path / "token").read_text().strip()
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    made = orchestrator.ask("POST", "/v1/tokens", {"role": "viewer", "name": "eve"})["token"]
    orchestrator.process.send_signal(signal.SIGTERM)
    assert orchestrator.process.wait(DEADLINE_S) == 0
    assert token not in orchestrator.log.read_text()
    database = b"".join(path.read_bytes() for path in tmp_path.glob("store.db*"))
    assert token.encode() not in database and made.encode() not in database


PLAIN = ["--listen", "127.0.0.1:0", "--plain-loopback"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--listen", "somewhere"], "'somewhere' is no ADDRESS:PORT"),
        (["--listen", "192.0.2.1:1", "--plain-loopback"], "expected a loopback address"),
        (["--listen", "127.0.0.1:0"], "never served plain"),
        (["--listen", "127.0.0.1:0", "--plain-loopback", "--database", "mysql://x"], "expected sqlite:///PATH"),
        ([*PLAIN, "--database", "sqlite:///"], "names no file"),
        ([*PLAIN, "--database", "sqlite:///:memory:"], "names no file"),
        ([*PLAIN, "--database", "sqlite:////nowhere/a.db"], "expected a folder to write in"),
        ([*PLAIN, "--hosts-deadline-s", "nan"], "'nan' is no number"),
        ([*PLAIN, "--drift-every-s", "inf"], "'inf' is no number"),
        ([*PLAIN, "--model-max-age-days", "nan"], "'nan' is no number"),
        ([*PLAIN, "--max-records", "9" * 20], "is not in the range"),
        ([*PLAIN, "--switch-cert", "garbage"], "garbage: holds no certificate"),
        ([*PLAIN, "--switch-ca", "garbage"], "garbage: holds no certificate"),
        ([*PLAIN, "--bootstrap-token-file", "garbage"], "garbage: 'ascii' codec can't decode"),
        (
            ["--listen", "127.0.0.1:0", "--tls-cert", "PKI/server.pem", "--tls-key", "PKI/switch.key"],
            "another certificate",
        ),
        (["--listen", "127.0.0.1:0", "--tls-cert", "garbage", "--tls-key", "PKI/switch.key"], "holds no certificate"),
        (["--listen", "127.0.0.1:BUSY", "--plain-loopback"], "can't listen at 127.0.0.1:BUSY: Address already in use"),
    ],
)
def test_a_wrong_command_line_is_one_sentence_and_exit_2(tmp_path, pki, options, sentence):
    base = ["--database", f"sqlite:///{tmp_path / 'a.db'}", "--bootstrap-token-file", str(tmp_path / "token")]
    for kind, file in (("cert", "orchestrator.pem"), ("key", "orchestrator.key"), ("ca", "ca.pem")):
        base += [f"--switch-{kind}", str(pki / file)]
    (tmp_path / "garbage").write_bytes(b"\xff no PEM, no token")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [word.replace("PKI", str(pki)).replace("BUSY", port) for word in (*base, *options)]
        said = tmp_path / "said"
        done = Forked(ORCHESTRATOR, ["serve", *words], said, tmp_path, {"COLUMNS": "400"}).wait(DEADLINE_S)
    assert done == 2
    assert sentence.replace("BUSY", port) in said.read_text()
    assert "Traceback" not in said.read_text()


def test_a_second_orchestrator_on_one_database_is_refused_and_changes_nothing(orchestrator, tmp_path, pki):
    second = Orchestrator(tmp_path, pki)
    with pytest.raises(AssertionError, match="in use by another qclimb-orchestrator"):
        second.start()
    assert second.process.returncode == 2
    assert orchestrator.ask("GET", "/v1/state")["running_rollout"] is None
    orchestrator.kill()
    orchestrator.start()  # a lock goes with its process, also by kill -9


def test_what_leaves_tell_of_spines_is_read_again_and_again(stand):
    one = stand.orchestrator

    def seen(name):
        return one.ask("GET", "/v1/spines")["leaves"].get(name, {})

    wait_until(lambda: seen("l1").get("seen_at") and seen("l1")["error"] is None, "l1 is seen")
    before = seen("l1")["seen_at"]
    wait_until(lambda: seen("l1")["seen_at"] > before and seen("l1")["error"] is None, "l1 is seen again")
    stand.daemons[0].process.terminate()
    stand.daemons[0].process.wait()
    wait_until(lambda: "switch l1" in (seen("l1")["error"] or ""), "l1 is missed")
    assert seen("l2")["error"] is None


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit (util-linux) is not installed")
def test_more_silent_clients_than_it_may_have_files_keep_nobody_out(tmp_path, pki):
    """Some before TLS's handshake, some behind it."""
    one = Orchestrator(tmp_path, pki, command=("prlimit", "--nofile=320:320", *ORDERED)).start()
    address = one.http.base_url.host, one.http.base_url.port
    trusting = ssl.create_default_context(cafile=pki / "ca.pem")
    with ExitStack() as held:
        try:
            for number in range(700):
                plain = held.enter_context(socket.create_connection(address, DEADLINE_S))
                if number % 7 == 0:
                    with suppress(OSError):  # ended already: it was the one that waited for longest
                        held.enter_context(trusting.wrap_socket(plain, server_hostname="127.0.0.1"))
                if number % 50 == 0:
                    with httpx.Client(base_url=one.http.base_url, verify=trusting, timeout=DEADLINE_S) as late:
                        assert late.get("/healthz").status_code == 204
            assert one.ask("GET", "/v1/state")["policy"] is None
        finally:
            one.kill()
