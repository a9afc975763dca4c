"""Fixtures: a redis with a platform's rows, certificates, the daemon over both (`stand.py`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.switchd.stand import PLATFORM, Daemon, Pki, Redis, running_daemon, running_redis


@pytest.fixture
def server() -> Iterator[Redis]:
    with running_redis() as found:
        found.load(PLATFORM)
        yield found


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    directory = tmp_path_factory.mktemp("pki")
    for ca_name, names in (("ca", ("switch", "orchestrator", "viewer", "stranger")), ("other-ca", ("forger",))):
        ca = trustme.CA()
        ca.cert_pem.write_to_path(directory / f"{ca_name}.pem")
        for name in names:
            cert = ca.issue_cert("127.0.0.1", common_name="orchestrator" if name == "forger" else name)
            cert.private_key_pem.write_to_path(directory / f"{name}.key")
            for blob in cert.cert_chain_pems:
                blob.write_to_path(directory / f"{name}.pem", append=True)
    return Pki(directory)


@pytest.fixture
def daemon(server: Redis, pki: Pki, tmp_path: Path) -> Iterator[Daemon]:
    with running_daemon(server.url, pki, tmp_path / "switchd.log") as found:
        yield found
