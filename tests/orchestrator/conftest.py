"""Fixtures: flows of several made-up services, an open service behind a test client, tokens."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import trustme
from fastapi.testclient import TestClient
from qclimb.policy import Mode
from qclimb.record import FlowRecord

from orchestrator.fabric import runner
from orchestrator.fabric.runner import Runner
from orchestrator.fabric.switches import Fleet
from orchestrator.ingest.recordings import Recordings
from orchestrator.metrics import Metrics
from orchestrator.models.trainer import Trainer
from orchestrator.plan.revision import compose
from orchestrator.rest import tokens
from orchestrator.rest.app import make_app
from orchestrator.rest.service import Service
from orchestrator.rest.tokens import Role
from orchestrator.store import generations
from orchestrator.store.store import Store
from orchestrator.watch.bounds import Watch
from orchestrator.watch.spines import SpineWatch
from orchestrator.watch.switches import SwitchWatch
from tests.orchestrator import postgres as postgresql


def service_records(flows: int, seed: int = 0, host: int = 1) -> list[FlowRecord]:
    """Flows of four services on one host.

    Port 80 has files of five sizes, 7001 doubles or halves the last size, 7002's size depends on the peer (within
    20 %), 7003 is log-uniform noise over two decades.
    """
    random = np.random.default_rng([seed, host])
    files = (1_500, 20_000, 64_000, 300_000, 4_000_000)
    last: dict[tuple[int, int], tuple[int, ...]] = {}
    records, now_us = [], 0
    for index in range(flows):
        now_us += int(random.exponential(5_000)) + 1
        port = int(random.choice([80, 7001, 7002, 7003]))
        peer = int(random.integers(2, 8))
        history = last.get((port, peer), ())
        if port == 80:
            size = int(random.choice(files))
        elif port == 7001:
            size = int(np.clip((history[0] if history else 10_000) * random.choice([0.5, 2]), 500, 10_000_000))
        elif port == 7002:
            size = int(2_000 * 4**peer * random.uniform(0.8, 1.2))
        else:
            size = int(10 ** random.uniform(2, 4))
        records.append(
            FlowRecord(
                start_ns=now_us * 1000,
                last_write_ns=now_us * 1000 + size,
                size_bytes=size,
                start_us=now_us,
                gap_us=0 if not history else 1000,
                last_size_bytes=(history + (0,) * 5)[:5],
                local_addr=f"198.19.1.{host}",
                peer_addr=f"198.19.2.{peer}",
                local_port=port,
                peer_port=40_000 + index % 20_000,
                role=1,
                first_write_bytes=min(size, 3277),
            )
        )
        last[port, peer] = (size, *history)[:5]
    return records


@pytest.fixture(scope="session")
def records() -> list[FlowRecord]:
    return service_records(1500)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and for each name a .pem (certificate) and a .key; all certificates are for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("pki")
    for ca_name, names in (("ca", ("server", "switch", "orchestrator", "viewer")), ("other-ca", ("forger",))):
        ca = trustme.CA()
        ca.cert_pem.write_to_path(folder / f"{ca_name}.pem")
        for name in names:
            issued = ca.issue_cert("127.0.0.1", common_name=name)
            issued.private_key_pem.write_to_path(folder / f"{name}.key")
            issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    return folder


@pytest.fixture(autouse=True)
def epochless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In most tests a generation is its rollout's, or model's, number; those of processes have it as it is."""
    if "epochs" not in request.keywords:
        monkeypatch.setattr(generations, "new", lambda number: number)


@pytest.fixture(scope="session")
def postgres() -> Iterator[postgresql.Server]:
    """A PostgreSQL server."""
    if postgresql.programs() is None:
        pytest.skip("needs PostgreSQL's initdb: scripts/setup installs Debian's postgresql")
    with postgresql.server() as found:
        yield found


@pytest.fixture
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    """SQLite, or with QCLIMB_TEST_DATABASE=postgresql in the environment PostgreSQL."""
    if os.environ.get("QCLIMB_TEST_DATABASE") == "postgresql":
        if (only := request.node.get_closest_marker("sqlite_only")) is not None:
            pytest.skip(f"SQLite alone: {only.args[0]}")
        url = request.getfixturevalue("postgres").new()
    else:
        url = f"sqlite:///{tmp_path / 'store.db'}"
    found = Store(url)
    yield found
    found.close()


@pytest.fixture
def service(store: Store, pki: Path) -> Service:
    metrics = Metrics(store)
    fleet = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=1)
    runner = Runner(store, fleet, switch_deadline_s=120, hosts_deadline_s=120, observe_push=metrics.push)
    recordings, trainer = Recordings(store, max_records=2000), Trainer(metrics.trained)
    watch = Watch(store, recordings, runner, trainer, every_s=3600)
    spines = SpineWatch(store, recordings, runner, fleet, every_s=3600, observe=metrics.spines)
    switches = SwitchWatch(store, runner, metrics, round_s=0)
    return Service(store, recordings, runner, trainer, metrics, watch, spines, switches)


@pytest.fixture
def anonymous(service: Service) -> Iterator[TestClient]:
    """A client without a token."""
    with TestClient(make_app(service)) as client:
        yield client


@pytest.fixture
def admin(anonymous: TestClient, service: Service) -> TestClient:
    """The same client, as an administrator; host h1 is registered."""
    token = tokens.issue(service.store, "root", Role.ADMIN)
    anonymous.headers["Authorization"] = f"Bearer {token}"
    assert anonymous.put("/v1/hosts/h1").status_code == 200
    return anonymous


@pytest.fixture
def revision(store, monkeypatch):
    monkeypatch.setattr(runner, "UNSTORED_RETRY_S", 0.01)
    made = compose(Mode.PIAS, (5000,), 2, slack_bytes=0)
    return store.add_revision("test", made.to_json())
