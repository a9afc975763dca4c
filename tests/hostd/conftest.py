"""Fixtures: the stand-in orchestrator and a hostd that talks to it."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.hostd.bench import TOKEN, Hostd, StandIn
from tests.waiting import wait_until


@pytest.fixture(scope="session")
def certificates() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(certificates: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    certificates.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def standin(certificates: trustme.CA) -> Iterator[StandIn]:
    server = StandIn(certificates)
    yield server
    server.stop()


@pytest.fixture
def hostd(standin: StandIn, ca_file: Path, token_file: Path, tmp_path: Path) -> Iterator[Hostd]:
    """A hostd that polls the stand-in 20 times a second and has written its first status."""
    made = Hostd(
        tmp_path,
        *("--name", "h1", "--orchestrator", standin.url, "--ca", str(ca_file), "--token-file", str(token_file)),
        *("--poll-interval-s", "0.05"),
    )
    try:
        wait_until(lambda: made.process.poll() is not None or made.state())
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(made.process.pid, signal.SIGKILL)
        made.process.wait()
        print(made.log.read_text())
