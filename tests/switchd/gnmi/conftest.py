"""Fixtures: one redis and one daemon a file, a stub that may do everything."""

from collections.abc import Iterator

import pytest
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from switchd.apply import Switch
from switchd.db_redis import RedisDatabase
from tests.switchd.gnmi.client import channel
from tests.switchd.stand import CONFIG, PLATFORM, Daemon, Pki, Redis, running_daemon, running_redis


@pytest.fixture(scope="module")
def shared(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Redis, Daemon]]:
    """One redis and one daemon for a file: each test begins from an empty configuration."""
    with running_redis() as server:
        server.load(PLATFORM)
        with running_daemon(server.url, pki, tmp_path_factory.mktemp("log") / "switchd.log") as daemon:
            yield server, daemon


@pytest.fixture
def server(shared: tuple[Redis, Daemon], stub: gnmi_pb2_grpc.gNMIStub) -> Redis:
    server = shared[0]
    for n in range(4):
        server.db(CONFIG).hdel(f"PORT_QOS_MAP|Ethernet{4 * n}", "pfc_enable")
    stub.Set(pb.SetRequest(delete=[path("/qclimb")]))
    return server


@pytest.fixture
def daemon(shared: tuple[Redis, Daemon], server: Redis) -> Daemon:
    return shared[1]


@pytest.fixture
def stub(shared: tuple[Redis, Daemon]) -> Iterator[gnmi_pb2_grpc.gNMIStub]:
    with channel(shared[1], "orchestrator") as found:
        yield gnmi_pb2_grpc.gNMIStub(found)


@pytest.fixture
def alone() -> Iterator[Redis]:
    """A redis that no daemon holds."""
    with running_redis() as found:
        found.load(PLATFORM)
        yield found


@pytest.fixture
def switch(alone: Redis) -> Iterator[Switch]:
    """One that has read the rows."""
    db = RedisDatabase(alone.url)
    found = Switch(db)
    found.follow()
    yield found
    db.close()
