"""docs/guide/deploy.md: its commands, one after another: orchestrator, switches and hosts as processes on the loopback.

What installs packages and speaks to systemd is run in a clean root by tests/commands/test_packages_live.py.
"""

import grp
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.hostd.bench import BIN
from tests.waiting import wait_until

pytest.importorskip("fastapi", reason="needs the packages of the orchestrator")
pytest.importorskip("pygnmi", reason="needs the packages of the switch daemon")
from tests.switchd.stand import PLATFORM, Pki, running_daemon, running_redis

GUIDE = (Path(__file__).parents[2] / "docs/guide/deploy.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```((?:sh|toml) [\w-]+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
FUNCTIONS = "".join(line for line in BLOCKS["sh api"].splitlines(keepends=True) if "() {" in line)
TRAFFIC = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
def serve():
    while True:
        taken, _ = server.accept()
        while taken.recv(1 << 16): pass
        taken.close()
threading.Thread(target=serve, daemon=True).start()
for n in range(400):
    with socket.create_connection(server.getsockname()) as one:
        one.sendall(b"x" * (1_000 + n * n * 10))
"""


@contextmanager
def running(words: list[Any], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=out)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


class Shell:
    """The guide's shell, whose names stand for this folder and the loopback."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        group = grp.getgrgid(os.getgid()).gr_name
        self.names = BLOCKS["sh names"]
        self.set(ORCHESTRATOR="127.0.0.1", ETC=str(folder), STATE=str(folder), GROUP=group)
        self.set(LEAF="127.0.0.1:1", SPINE="127.0.0.1:1")

    def set(self, **values: str) -> None:
        for name, value in values.items():
            self.names, found = re.subn(rf"^{name}=.*$", f"{name}={value}", self.names, flags=re.MULTILINE)
            assert found == 1, name

    def run(self, script: str) -> "subprocess.CompletedProcess[str]":
        """A script under the guide's names and its `api`."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{self.names}{FUNCTIONS}{script}"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        )

    def say(self, *names: str) -> str:
        """What the blocks print; each of their commands must succeed."""
        done = self.run("".join(BLOCKS[f"sh {name}"] for name in names))
        assert done.returncode == 0, f"{names}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def last(self, name: str) -> Any:
        """The last JSON that a block prints."""
        return json.loads(self.say(name).strip().splitlines()[-1])

    def ask(self, line: str) -> dict[str, Any]:
        """What one line answers; {} for a refusal."""
        done = self.run(line)
        return {} if done.returncode else dict(json.loads(done.stdout))


@pytest.mark.skipif(None in map(shutil.which, ("bash", "curl", "redis-server")), reason="needs bash, curl, redis")
def test_the_guide_leads_from_nothing_to_a_rollout_and_back(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.say("pki")
    with ExitStack() as stack:
        settings, log = tmp_path / "orchestrator.toml", tmp_path / "orchestrator.log"
        words = [BIN / "qclimb-orchestrator", "serve", "--config", settings, "--listen", "127.0.0.1:0"]
        stack.enter_context(running([*words, "--hosts-deadline-s", "120", "--switch-deadline-s", "120"], log))
        assert wait_until(lambda: "ready" in log.read_text())
        port = log.read_text().partition("listen=127.0.0.1:")[2].split()[0]
        shell.set(REST=f"https://127.0.0.1:{port}")
        shell.last("api")
        for switch in ("leaf", "spine"):
            redis = stack.enter_context(running_redis())
            redis.load(PLATFORM)
            place = tmp_path / f"{switch}-switch"
            place.mkdir()
            for file, name in ((f"{switch}.pem", "switch.pem"), (f"{switch}.key", "switch.key"), ("ca.pem", "ca.pem")):
                shutil.copy(tmp_path / file, place / name)
            daemon = stack.enter_context(running_daemon(redis.url, Pki(place), place / "log"))
            shell.set(**{switch.upper(): f"127.0.0.1:{daemon.port}"})
        shell.say("switches", "hosts")
        for host in ("h1", "h2"):
            here = tmp_path / f"{host}.toml"
            text = BLOCKS["toml hostd"].replace('"h1"', f'"{host}"').replace("192.0.2.1:8443", f"127.0.0.1:{port}")
            text = text.replace("/etc/qclimb/token", str(tmp_path / f"{host}.token"))
            text = text.replace("/etc/qclimb", str(tmp_path)) + f'run_dir = "{tmp_path / host}"\npoll_interval_s = 1\n'
            here.write_text(text)
            stack.enter_context(running([BIN / "qclimb-hostd", "--config", here], tmp_path / f"{host}.log"))
            assert wait_until(lambda h=host: status(tmp_path / h).get("last_contact_at"))
        assert shell.last("recording")["label"] == "monday"
        traffic = [BIN / "qclimb-run", "--run-dir", tmp_path / "h1", "--", sys.executable, "-c", TRAFFIC]
        subprocess.run(traffic, check=True, timeout=300)
        assert wait_until(lambda: shell.ask(BLOCKS["sh revision"].splitlines()[0]))
        shell.ask("""api $REST/v1/revisions --json '{"mode": "off"}'""")  # the guide's has another number than 1
        shell.say("revision", "rollout")
        assert ended(shell, 1) == "done"
        for host in ("h1", "h2"):
            assert status(tmp_path / host)["mode"] == "pias"
        assert "revision 2, mode pias" in shell.say("cli")
        assert shell.last("off")["unkept"] is None
        assert wait_until(lambda: all(status(tmp_path / host)["mode"] == "off" for host in ("h1", "h2")))
        shell.say("back")
        assert ended(shell, 2) == "done"
        for host in ("h1", "h2"):
            assert status(tmp_path / host)["mode"] == "observe"


def ended(shell: Shell, rollout: int) -> str:
    """How a rollout ended."""

    def end() -> str:
        phase = shell.ask(f"api $REST/v1/rollouts/{rollout}").get("phase", "running")
        return "" if phase == "running" else str(phase)

    return str(wait_until(end, 240))


def status(run_directory: Path) -> dict[str, Any]:
    words = [BIN / "qclimb-hostd", "--run-dir", run_directory, "status", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return {} if done.returncode else dict(json.loads(done.stdout))


def test_every_json_of_the_guide_is_one() -> None:
    bodies = re.findall(r"--json '(.*?)'", GUIDE)
    quoted = re.findall(r'--json "((?:[^"\\]|\\.)*)"', GUIDE)
    bodies += [each.replace('\\"', '"').replace("$REVISION", "1") for each in quoted]
    assert len(bodies) > 6
    for body in bodies:
        json.loads(body)
