"""docs/guide/deploy.md: its commands, run one after another on this machine's loopback."""

import json
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hostd.bench import BIN, wait_for

pytest.importorskip("fastapi", reason="needs the packages of the orchestrator")
GUIDE = (Path(__file__).parents[2] / "docs/guide/deploy.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```((?:sh|toml) \w+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
needs_tools = pytest.mark.skipif(
    None in map(shutil.which, ("bash", "curl", "openssl")), reason="the guide's commands need bash, curl and openssl"
)


@contextmanager
def running(command: str, folder: Path, settings: str, *words: str) -> Iterator[Path]:
    """A daemon by one of the guide's settings; its log."""
    place = {"/etc/qclimb": folder, "/var/lib/qclimb": folder}
    for name, here in place.items():
        settings = settings.replace(name, str(here))
    config, log = folder / f"{command}.toml", folder / f"{command}.log"
    config.write_text(settings)
    with log.open("wb") as out:
        process = subprocess.Popen([BIN / command, *words, "--config", config], cwd=folder, stdout=out, stderr=out)
    try:
        yield log
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.wait()


@needs_tools
def test_the_guide_leads_from_certificates_to_a_host_that_has_its_orchestrator(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def say(*names: str) -> str:
        head = [re.sub(r"192\.0\.2\.\d+", "127.0.0.1", BLOCKS["sh names"]).replace("8443", str(port))]
        script = "".join([*head, *(BLOCKS[f"sh {name}"] for name in names)])
        done = subprocess.run(
            ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    say("pki")
    (tmp_path / "orchestrator.pem").chmod(0o644)
    here = re.sub(r"192\.0\.2\.1:8443", f"127.0.0.1:{port}", BLOCKS["toml orchestrator"])
    with running("qclimb-orchestrator", tmp_path, here, "serve") as log:
        assert wait_for(lambda: "ready" in log.read_text(), 60)
        assert json.loads(say("api"))
        say("api", "switches", "hosts")
        (tmp_path / "token").write_text((tmp_path / "h1.token").read_text())
        (tmp_path / "token").chmod(0o600)
        host = BLOCKS["toml hostd"].replace("192.0.2.1:8443", f"127.0.0.1:{port}")
        host += f'run_dir = "{tmp_path / "run"}"\n'
        with running("qclimb-hostd", tmp_path, host):
            words = [BIN / "qclimb-hostd", "--run-dir", tmp_path / "run", "status", "--json"]

            def told() -> bool:
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
                return done.returncode == 0 and bool(json.loads(done.stdout)["last_contact_at"])

            assert wait_for(told, 60)
        assert "monday" in say("api", "recording")


def test_every_json_of_the_guide_is_one() -> None:
    bodies = re.findall(r"--json '(.*?)'", GUIDE)
    assert len(bodies) > 3
    for body in bodies:
        json.loads(body)
