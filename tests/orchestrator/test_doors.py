"""What a client that is slow, silent or endless may hold: neither the door nor anybody else's room."""

import asyncio
import http.client
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from orchestrator.rest import door, limits, server, tokens
from orchestrator.rest.app import make_app
from orchestrator.rest.tokens import Role
from orchestrator.watch.course import Course, Point

DEADLINE_S = 60.0


@pytest.fixture
def host_token(admin, service) -> str:
    return tokens.issue(service.store, "h1", Role.HOST)


def ask(service, *requests: tuple[str, str, dict[str, str], AsyncIterator[bytes]]) -> list[httpx.Response]:
    """The answers to requests that are under way at the same time."""

    async def all_of_them() -> list[httpx.Response]:
        transport = httpx.ASGITransport(make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(
                *(client.request(how, path, headers=headers, content=body) for how, path, headers, body in requests)
            )

    return asyncio.run(all_of_them())


async def endless() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.sleep(3600)


async def whole() -> AsyncIterator[bytes]:
    yield b'{"dropped": 1}'


class Slow(Course):
    """Answers once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()

    def points(self) -> list[Point]:
        assert self.goes_on.wait(DEADLINE_S)
        return super().points()


def test_slow_requests_of_one_token_leave_threads_to_others_and_are_all_answered(service, admin):
    service.course = slow = Slow()
    eve, adam = (
        {"Authorization": f"Bearer {tokens.issue(service.store, name, Role.VIEWER)}"} for name in ("eve", "adam")
    )

    async def all_of_them() -> tuple[httpx.Response, list[httpx.Response]]:
        transport = httpx.ASGITransport(make_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            begun = [asyncio.create_task(client.get("/v1/felt", headers=eve)) for _ in range(100)]
            await asyncio.sleep(0)
            other = await asyncio.wait_for(client.get("/v1/hosts", headers=adam), DEADLINE_S / 2)
            gone, *others = begun
            gone.cancel()
            slow.goes_on.set()
            return other, await asyncio.gather(*others)

    other, answers = asyncio.run(all_of_them())
    assert other.status_code == 200
    assert {answer.status_code for answer in answers} == {200}
    assert not service.turns.holders


def test_a_hosts_slow_bodies_keep_nobody_else_out_and_end(service, admin, host_token, monkeypatch):
    """Each says that it has as much as a body may, and sends a byte of it."""
    monkeypatch.setattr(limits, "BODY_S", 0.5)
    admin.put("/v1/hosts/h2")
    slow = {"Authorization": f"Bearer {host_token}", "Content-Length": str(limits.DELIVERY_BYTES_MAX)}
    other = {"Authorization": f"Bearer {tokens.issue(service.store, 'h2', Role.HOST)}"}
    begun = [("POST", "/v1/hosts/h1/records", slow, endless()) for _ in range(40)]
    *ended, taken = ask(service, *begun, ("POST", "/v1/hosts/h2/records", other, whole()))
    assert taken.status_code == 202
    assert sorted(answer.status_code for answer in ended) == [408] * 2 + [503] * 38
    assert "body: 1 bytes came in 0.5 s" in next(answer.text for answer in ended if answer.status_code == 408)
    assert admin.post("/v1/hosts/h1/records", json={}).status_code == 202, "and nothing of it is left in hand"


def test_of_what_is_no_delivery_no_endless_body_is_awaited(service, admin, monkeypatch):
    monkeypatch.setattr(limits, "BODY_S", 0.1)
    headers = {"Authorization": admin.headers["Authorization"], "Content-Type": "application/json"}
    (answer,) = ask(service, ("POST", "/v1/revisions", headers, endless()))
    assert answer.status_code == 408


def test_nobodys_body_is_read(service, admin):
    asked = []

    async def told() -> AsyncIterator[bytes]:
        asked.append(True)
        yield b"{}"

    headers = {"Authorization": "Bearer guessed", "Content-Type": "application/json", "Content-Length": "2"}
    answers = ask(service, *(("POST", path, headers, told()) for path in ("/v1/revisions", "/v1/hosts/h1/records")))
    assert [answer.status_code for answer in answers] == [401, 401]
    assert not asked


@pytest.fixture
def tls() -> dict[str, Any]:
    """How uvicorn is told of certificates; a test may."""
    return {}


@pytest.fixture
def serving(service, admin, monkeypatch, tls) -> Iterator[server.Server]:
    """The service as it is served, for few connections and little patience."""
    monkeypatch.setattr(server, "HEAD_S", 0.5)
    monkeypatch.setattr(door, "connections_most", lambda: 8)
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    ready = threading.Event()
    config = uvicorn.Config(make_app(service), log_config=None, lifespan="off", timeout_graceful_shutdown=1, **tls)
    config.load()
    serving = server.Server(config, listening, ready.set)
    thread = threading.Thread(target=serving.run, daemon=True)
    thread.start()
    assert ready.wait(DEADLINE_S)
    yield serving
    serving.should_exit = True
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


@pytest.fixture
def port(serving) -> int:
    return serving.servers[0].sockets[0].getsockname()[1]


def silent(port: int, said: bytes = b"") -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
    found.sendall(said)
    return found


def is_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def kept(port: int) -> http.client.HTTPConnection:
    """A connection that was asked once."""
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    assert answered(made) == 204
    return made


def answered(connection: http.client.HTTPConnection) -> int:
    """By the same connection as before: it makes no new one."""
    connection.auto_open = 0 if connection.sock else 1
    connection.request("GET", "/healthz")
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_silent_connections_make_room_for_others_and_never_those_that_were_asked(port, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 3600.0)
    host = kept(port)
    held = [silent(port) for _ in range(40)]
    assert answered(kept(port)) == 204
    assert answered(host) == 204
    assert is_ended(held[0])
    for each in held:
        each.close()


class TestBehindTls:
    """Who makes no handshake counts, too."""

    @pytest.fixture
    def tls(self, pki) -> dict[str, Any]:
        return {"ssl_certfile": pki / "server.pem", "ssl_keyfile": pki / "server.key"}

    def test_silent_ones_make_room(self, port, pki, monkeypatch):
        monkeypatch.setattr(door, "HANDSHAKE_S", 3600.0)
        trusting = ssl.create_default_context(cafile=pki / "ca.pem")

        def asked() -> http.client.HTTPSConnection:
            return http.client.HTTPSConnection("127.0.0.1", port, timeout=DEADLINE_S, context=trusting)

        host = asked()
        assert answered(host) == 204
        held = [silent(port) for _ in range(40)]
        assert [answered(each) for each in (asked(), host)] == [204, 204]
        assert is_ended(held[0])
        for each in held:
            each.close()


def test_who_comes_last_stays_though_all_came_at_one_moment(serving, port, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 3600.0)
    loop = serving.servers[0].get_loop()
    for _ in range(20):
        loop.call_soon_threadsafe(time.sleep, 0.05)
        held = [silent(port) for _ in range(20)]
        kept(port).close()
        for each in held:
            each.close()


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: "])
def test_a_head_that_does_not_end_ends_its_connection(port, said):
    with silent(port, said) as connection:
        assert is_ended(connection)


def test_a_head_that_trickles_ends_too_and_one_that_is_endless_at_once(port, monkeypatch):
    with silent(port, b"GET /healthz HTTP/1.1\r\nA: ") as connection:
        end = time.monotonic() + DEADLINE_S
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            while time.monotonic() < end:
                connection.sendall(b"a")
                time.sleep(0.02)
    monkeypatch.setattr(server, "HEAD_S", 3600.0)
    with (
        silent(port, b"GET /healthz HTTP/1.1\r\n") as connection,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        for _ in range(100_000):
            connection.sendall(b"A: " + b"a" * 1000 + b"\r\n")


def test_a_kept_connection_is_idle_for_as_long_as_it_may(port, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 3600.0)
    host = kept(port)
    monkeypatch.setattr(server, "HEAD_S", 0.2)
    assert answered(host) == 204
    time.sleep(5 * server.HEAD_S)
    assert answered(host) == 204
