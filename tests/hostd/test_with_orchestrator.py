"""hostd against the real qclimb-orchestrator process, over TLS, through nothing but its REST."""

import contextlib
import json
import os
import re
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from qclimb.hostfile import check_forest_file, decode_policy
from qclimb.policy import Mode
from qclimb.record import RecordBatch

from tests.hostd.bench import BIN, Hostd, record
from tests.waiting import wait_until

pytest.importorskip("fastapi", reason="needs the packages of the orchestrator")


class Orchestrator:
    """The process, and its REST as the admin."""

    def __init__(self, folder: Path, ca: trustme.CA) -> None:
        self.log, self.token_file = folder / "orchestrator.log", folder / "admin.token"
        for name in ("server", "switch"):
            issued = ca.issue_cert("127.0.0.1", common_name=name)
            issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
            issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        arguments = ["--listen", "127.0.0.1:0", "--database", f"sqlite:///{folder}/store.db"]
        arguments += ["--tls-cert", f"{folder}/server.pem", "--tls-key", f"{folder}/server.key"]
        arguments += ["--switch-cert", f"{folder}/switch.pem", "--switch-key", f"{folder}/switch.key"]
        arguments += ["--switch-ca", f"{folder}/ca.pem", "--bootstrap-token-file", str(self.token_file)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([BIN / "qclimb-orchestrator", "serve", *arguments], stderr=log, stdout=log)
        self._tls = ssl.create_default_context(cafile=folder / "ca.pem")
        self.url = ""

    def wait(self) -> None:
        """Until it says where it serves."""
        address = r"listen=(?:https://)?(127\.0\.0\.1:[1-9][0-9]*)"
        found = wait_until(lambda: self.process.poll() is not None or re.search(address, self.log.read_text()))
        assert found is not True, self.log.read_text()
        self.url = f"https://{found[1]}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            self.url + path, method=method, data=json.dumps(body).encode() if body else None
        )
        request.add_header("Authorization", f"Bearer {self.token_file.read_text().strip()}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


@pytest.fixture
def orchestrator(tmp_path: Path, certificates: trustme.CA) -> Iterator[Orchestrator]:
    made = Orchestrator(tmp_path, certificates)
    try:
        made.wait()
        yield made
    finally:
        made.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            made.process.wait(10)
        made.process.kill()
        made.process.wait()
        print(made.log.read_text()[-3000:])


def test_records_go_up_and_thresholds_and_forest_come_down(orchestrator: Orchestrator, tmp_path: Path) -> None:
    orchestrator.ask("PUT", "/v1/hosts/h1", {})
    token = orchestrator.ask("POST", "/v1/tokens", {"role": "host", "name": "h1"})["token"]
    orchestrator.ask("PUT", "/v1/recording", {"label": "first"})
    token_file = tmp_path / "host.token"
    os.close(os.open(token_file, os.O_CREAT, 0o600))
    token_file.write_text(token)
    hostd = Hostd(
        tmp_path,
        *("--name", "h1", "--orchestrator", orchestrator.url, "--ca", str(tmp_path / "ca.pem")),
        *("--token-file", str(token_file), "--poll-interval-s", "0.05"),
    )
    try:
        wait_until(lambda: hostd.state().get("last_contact_at"))
        sizes = [100 * (1 + index % 50) ** 2 for index in range(400)]
        for first in range(0, 400, 8):
            batch = [
                record(size, start_us=first * 1000, peer_addr=f"198.19.2.{1 + size % 5}", peer_port=7000)
                for size in sizes[first : first + 8]
            ]
            hostd.send(RecordBatch(tuple(batch)))
        wait_until(lambda: hostd.state()["shipped"] == 400)
        found = orchestrator.ask("GET", "/v1/flows/statistics?label=first")
        assert found["flows"] == 400, found

        model = orchestrator.ask("POST", "/v1/models", {"label": "first", "trees": 5, "depth": 4})["generation"]
        wanted = {"mode": "qclimb", "label": "first", "model": model, "slack_bytes": 5000}
        revision = orchestrator.ask("POST", "/v1/revisions", wanted)
        rollout = orchestrator.ask("POST", "/v1/rollouts", {"revision": revision["id"]})["id"]

        def phase() -> Any:
            state = orchestrator.ask("GET", f"/v1/rollouts/{rollout}")
            return state if state["phase"] != "running" else None

        assert wait_until(phase, 60)["phase"] == "done"
        policy = decode_policy((hostd.run_dir / "policy").read_bytes())
        assert (policy.mode, policy.model_generation, policy.slack_bytes) == (Mode.QCLIMB, model, 5000)
        assert check_forest_file((hostd.run_dir / "model").read_bytes()) == model
        assert wait_until(lambda: hostd.state()["policy_generation"] == policy.generation)
        assert hostd.state()["error"] == ""
    finally:
        hostd.kill()
        print(hostd.log.read_text()[-2000:])
