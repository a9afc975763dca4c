"""Workers take deliveries, a Redis stream holds them, the leader keeps them: each once, whoever is killed when."""

import contextlib
import shutil
import socket
import time

import httpx
import pytest
import redis
from fastapi.testclient import TestClient
from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.histogram import SizeHistogram
from qclimb.record_rows import from_records, kept
from qclimb.stretch import Stretch

from orchestrator.errors import StoreError
from orchestrator.ingest import stream
from orchestrator.ingest.deliveries import Delivery
from orchestrator.ingest.stream import LAST, STREAM, Consumer, StreamIntake, decode, encode, opened
from orchestrator.metrics import Metrics
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role
from orchestrator.rest.worker import Worker, make_worker
from orchestrator.store.reader import Reader
from tests.forked import ORCHESTRATOR, Forked
from tests.orchestrator.conftest import service_records
from tests.switchd.stand import running_redis
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


@pytest.fixture(scope="module")
def server():
    with running_redis() as found:
        client = redis.Redis.from_url(found.url)
        client.config_set("appendonly", "yes")
        client.config_set("appendfsync", "always")
        yield found.url


@pytest.fixture
def to(server):
    found = opened(server)
    found.delete(STREAM)
    yield found
    found.close()


@pytest.fixture
def consumer(to, service) -> Consumer:
    return Consumer(to, service.store, service.intake)


@pytest.fixture
def worker(to, service):
    """A worker's client, as host h1."""
    store = service.store
    store.put_host("h1")
    store.note("root", "put-host", "h1")
    token = tokens.issue(store, "h1", Role.HOST)
    reader = Reader(store.engine.url.render_as_string(hide_password=False).replace("+psycopg", ""))
    metrics = Metrics(reader)
    intake = StreamIntake(to, reader, metrics)
    with TestClient(make_worker(Worker(reader, intake, metrics))) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        client.reader = reader
        yield client
    reader.close()


def delivered(client, flows: int, key: str, first: int = 0):
    rows = from_records(service_records(first + flows)[first:])
    sizes = SizeHistogram.of(rows["size_bytes"].tolist())
    told = {"histogram": sizes.to_json(), "policy_generation": 7, "stretch": Stretch(3, 0.5).to_json()}
    headers = {"Content-Type": MEDIA_TYPE, "Idempotency-Key": key}
    return client.post("/v1/hosts/h1/records", content=encode_delivery(told, rows), headers=headers)


def test_what_a_worker_acknowledged_the_leader_keeps_with_all_that_belongs_to_it(worker, consumer, service, to):
    answer = delivered(worker, 40, "k1")
    assert answer.status_code == 202, answer.text
    assert (answer.json()["records"], answer.json()["policy_etag"]) == (40, None)
    assert answer.json()["next_records"] >= 16
    assert service.recordings.labels() == []
    assert consumer.read() == 1
    found = service.recordings.statistics(None)
    assert (found.flows, found.records.kept, found.hosts) == (40, 40, {"h1": 40})
    assert service.store.hosts()["h1"].policy_generation == 7
    assert len(service.runner.felt) == 1
    assert (to.xlen(STREAM), consumer.read()) == (0, 0)


def test_an_entry_counts_once_though_the_leader_died_before_it_could_let_go_of_it(worker, consumer, service, to):
    delivered(worker, 40, "k1")
    delivered(worker, 10, "k2", 40)
    entries = to.xrange(STREAM)
    assert consumer.read() == 2
    assert service.store.setting(LAST) == entries[-1][0].decode()
    to.delete(STREAM)
    for name, fields in entries:  # as if the leader had died before it let go of them
        to.xadd(STREAM, fields, id=name)
    assert service.recordings.statistics(None).flows == 50
    again = Consumer(to, service.store, service.intake)
    assert again.read() == 0
    assert delivered(worker, 10, "k2", 40).status_code == 202, "its answer had got lost"
    assert again.read() == 1
    assert service.recordings.statistics(None).flows == 50


def test_nothing_is_let_go_of_that_the_store_could_not_keep(worker, consumer, service, to, monkeypatch):
    delivered(worker, 40, "k1")
    with monkeypatch.context() as broken:
        broken.setattr(service.store, "set_setting", lambda *_, **__: (_ for _ in ()).throw(StoreError("disk is full")))
        with pytest.raises(StoreError, match="disk is full"):
            consumer.read()
    assert (to.xlen(STREAM), service.recordings.labels()) == (1, [])
    assert consumer.read() == 1
    assert service.recordings.statistics(None).flows == 40


def test_what_no_worker_wrote_is_left_out_and_holds_nobody_up(worker, consumer, service, to, caplog):
    delivered(worker, 40, "k1")
    to.xadd(STREAM, {"head": "{}", "rows": b"123"})
    delivered(worker, 10, "k2", 40)
    assert consumer.read() == 3
    assert (service.recordings.statistics(None).flows, to.xlen(STREAM)) == (50, 0)
    assert "event=left-out" in caplog.text


def test_too_many_that_wait_and_a_redis_that_is_gone_are_503_and_may_come_again(worker, to, monkeypatch):
    monkeypatch.setattr(stream, "WAITING_MOST", 1)
    assert delivered(worker, 5, "k1").status_code == 202
    refused = delivered(worker, 5, "k2", 5)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    assert to.xlen(STREAM) == 1
    monkeypatch.setattr(to, "xlen", lambda _: (_ for _ in ()).throw(redis.ConnectionError("gone")))
    assert delivered(worker, 5, "k2", 5).status_code == 503


def test_a_worker_knows_the_policy_and_who_may_ask_some_moments_after_the_leader(worker, service):
    assert worker.get("/v1/hosts/h1/policy").status_code == 404
    assert worker.get("/v1/state").status_code == 404
    with service.store.writing():
        service.store.set_setting("policy", None)
        service.store.revoke_tokens("h1")
        service.store.note("root", "revoke-tokens", "h1")
    wait_until(lambda: worker.get("/v1/hosts/h1/policy").status_code == 401, "the worker knows it, too")
    assert delivered(worker, 5, "k1").status_code == 401
    assert worker.get("/healthz").status_code == 204


def test_a_delivery_is_the_same_after_its_way():
    rows = kept(from_records(service_records(9)))
    made = Delivery("h1", "a", rows, SizeHistogram.of([5, 6]), 3, 2, 7, "k", "asked", Stretch(2, 1.5))
    head, content = encode(made).values()
    found = decode({b"head": str(head).encode(), b"rows": content if isinstance(content, bytes) else b""})
    assert encode(found) == encode(made) and found.rows.dtype == rows.dtype


def test_a_redis_that_may_lose_what_it_took_is_refused(server):
    client = redis.Redis.from_url(server)
    client.config_set("appendfsync", "everysec")
    try:
        with pytest.raises(StoreError, match="appendfsync everysec, expected appendonly yes, appendfsync always"):
            opened(server)
    finally:
        client.config_set("appendfsync", "always")
    with pytest.raises(StoreError, match="without TLS, expected rediss://"):
        opened("redis://:secret@192.0.2.1:6379")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_nothing_acknowledged_is_lost_or_counted_twice_when_workers_and_the_leader_are_killed(server, to, tmp_path):
    url, door, port = f"sqlite:///{tmp_path / 'store.db'}", free_port(), free_port()
    started: dict[str, Forked] = {}

    def start(name: str, *words: str, port: int) -> None:
        common = ("--database", url, "--redis", server, "--plain-loopback", "--listen", f"127.0.0.1:{port}")
        started[name] = Forked(ORCHESTRATOR, [*words, *common], tmp_path / f"{name}.log")
        log = tmp_path / f"{name}.log"
        wait_until(lambda: b" ready " in log.read_bytes() or started[name].poll() is not None, f"{name} is ready")
        assert started[name].poll() is None, log.read_text()

    def lead() -> httpx.Client:
        (tmp_path / "leader.log").unlink(missing_ok=True)
        start("leader", "serve", "--bootstrap-token-file", str(tmp_path / "token"), port=port)
        token = (tmp_path / "token").read_text().strip()
        return httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {token}"}, timeout=60
        )

    try:
        leader = lead()
        names = [f"h{number}" for number in range(4)]
        for name in names:
            leader.put(f"/v1/hosts/{name}").raise_for_status()
        issued = {
            name: leader.post("/v1/tokens", json={"role": "host", "name": name}).json()["token"] for name in names
        }
        for name in ("w1", "w2"):
            start(name, "ingest", port=door)
        client = httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0))  # either worker's turn
        rows = from_records(service_records(10))
        content = encode_delivery({"histogram": SizeHistogram.of(rows["size_bytes"].tolist()).to_json()}, rows)
        for turn in range(12):
            for name in names:
                headers = {
                    "Authorization": f"Bearer {issued[name]}",
                    "Content-Type": MEDIA_TYPE,
                    "Idempotency-Key": f"{name}-{turn}",
                }
                end = time.monotonic() + 60
                while True:  # as hostd: again under the same key, until it is acknowledged
                    with contextlib.suppress(httpx.TransportError):
                        address = f"http://127.0.0.1:{door}/v1/hosts/{name}/records"
                        if client.post(address, content=content, headers=headers).status_code == 202:
                            break
                    assert time.monotonic() < end
            if turn == 3:
                started["w1"].kill()
            if turn == 6:
                started["leader"].kill()
                started["leader"].wait()
            if turn == 9:
                leader = lead()

        def counted() -> dict[str, int]:
            return leader.get("/v1/flows/statistics").json()["hosts"]

        wait_until(lambda: sum(counted().values()) >= 480, "all records are counted")
        assert counted() == dict.fromkeys(names, 120)
    finally:
        for process in started.values():
            process.kill()
            process.wait()
