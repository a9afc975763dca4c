"""A small HTTPS orchestrator that tells what it was asked, and hostd as the real process."""

import contextlib
import dataclasses
import http.server
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import trustme
from qclimb.delivery import ACCEPT_POST, MEDIA_TYPE, decode_delivery
from qclimb.hostfile import encode_records
from qclimb.policy import Mode, Policy, default_dscp
from qclimb.record import FlowRecord, RecordBatch
from qclimb.record_rows import to_records

from tests.forked import HOSTD, Forked

BIN = Path(sys.executable).parent
TOKEN = "standin-Token_0123456789"


def policy(generation: int, **changed: Any) -> Policy:
    """A valid policy with 8 priorities."""
    thresholds = tuple(1000 * 3**power for power in range(7))
    plain = Policy(generation, Mode.PIAS, thresholds, default_dscp(8), slack_bytes=5000)
    return dataclasses.replace(plain, **changed)


def record(size_bytes: int = 1, **changed: Any) -> FlowRecord:
    """A valid record of a flow of this size."""
    return FlowRecord(**{"start_ns": 1, "last_write_ns": 2, "size_bytes": size_bytes, **changed})


def posted(content: bytes, kind: str | None) -> dict[str, Any]:
    """A delivery in either form, as its JSON."""
    if kind != MEDIA_TYPE:
        return dict(json.loads(content))
    line, rows = decode_delivery(content)
    return {**json.loads(line), "records": [found.to_json() for found in to_records(rows)]}


class StandIn:
    """The three paths of the orchestrator that hostd uses. `policy` may be raw bytes, to answer nonsense."""

    def __init__(self, certificates: trustme.CA) -> None:
        self.policy: Policy | bytes | None = None
        self.etag: str | None = None
        self.forests: dict[int, bytes] = {}
        self.refuse_records_with: int | None = None
        self.retry_after: str | None = None
        self.answers_to_lose = 0
        self.takes_rows = False
        self.next_records: int | None = None
        self.lengths: list[dict[str, Any]] | None = None
        """What the fabric knows of announced lengths; None: it is an older orchestrator's."""
        self.lengths_told: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.token = TOKEN
        self.posts: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.posted_at: list[float] = []
        self.connections = 0
        self.content_types: set[str | None] = set()
        self.use(certificates.issue_cert("127.0.0.1"))
        self._server: http.server.ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def use(self, certificate: trustme.LeafCert) -> None:
        """Shows this from the next start on."""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(self._tls)

    def start(self) -> None:
        """Serves, at the same port as before."""
        self._server = Server(("127.0.0.1", self.port), self._answerer())
        self.port = self._server.server_address[1]
        self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Is away: new connections are refused, kept ones are cut."""
        if self._server is not None:
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()
            for kept in server.kept:
                with contextlib.suppress(OSError):
                    kept.shutdown(socket.SHUT_RDWR)

    def _answerer(standin: "StandIn") -> type[http.server.BaseHTTPRequestHandler]:
        class Answerer(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                standin.connections += 1
                super().setup()
                self.server.kept.append(self.connection)  # type: ignore[attr-defined]

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def refuses_token(self) -> bool:
                if self.headers["Authorization"] == f"Bearer {standin.token}":
                    return False
                self.answer(401, b'{"detail": "token is not known"}')
                return True

            def do_GET(self) -> None:
                standin.requests.append(f"GET {self.path}")
                if self.refuses_token():
                    return
                if self.path.startswith("/v1/models/"):
                    content = standin.forests.get(int(self.path.split("/")[3]))
                    self.answer(*((404, b"") if content is None else (200, content)))
                elif self.path == "/v1/hosts/h1/policy" and standin.policy is not None:
                    found = standin.policy
                    etag = standin.etag or f'"{found.generation if isinstance(found, Policy) else "raw"}"'
                    content = found if isinstance(found, bytes) else json.dumps(found.to_json()).encode()
                    if self.headers["If-None-Match"] == etag:
                        self.answer(304, ETag=etag)
                    else:
                        self.answer(200, content, ETag=etag)
                else:
                    self.answer(404, b'{"detail": "no policy for this host"}')

            def take_lengths(self, content: bytes) -> None:
                if standin.lengths is None:
                    self.answer(404, b'{"detail": "Not Found"}')
                else:
                    standin.lengths_told += json.loads(content)["lengths"]
                    self.answer(200, json.dumps({"lengths": standin.lengths}).encode())

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                standin.requests.append(f"POST {self.path}")
                standin.posted_at.append(time.monotonic())
                if self.refuses_token():
                    return
                if self.path.endswith("/lengths"):
                    self.take_lengths(content)
                    return
                standin.content_types.add(self.headers["Content-Type"])
                if self.headers["Content-Type"] == MEDIA_TYPE and not standin.takes_rows:
                    self.answer(422, b'{"detail": "body is no object"}')
                elif standin.refuse_records_with:
                    when = {} if standin.retry_after is None else {"Retry-After": standin.retry_after}
                    self.answer(standin.refuse_records_with, b'{"detail": "not now"}', **when)
                else:
                    standin.posts.append(posted(content, self.headers["Content-Type"]))
                    standin.keys.append(self.headers["Idempotency-Key"])
                    if standin.posts[-1]["records"] and standin.answers_to_lose:
                        standin.answers_to_lose -= 1
                        self.connection.shutdown(socket.SHUT_RDWR)
                        self.close_connection = True
                    else:
                        said = {} if standin.next_records is None else {"next_records": standin.next_records}
                        takes = {"Accept-Post": ACCEPT_POST} if standin.takes_rows else {}
                        self.answer(202, json.dumps(said).encode(), **takes)

        return Answerer

    @property
    def records(self) -> list[FlowRecord]:
        """All records that arrived."""
        return [FlowRecord.from_json(found) for post in list(self.posts) for found in post["records"]]

    def heartbeats(self, generation: int) -> int:
        """How many posts named this policy generation."""
        return sum(post["policy_generation"] == generation for post in list(self.posts))


class Server(http.server.ThreadingHTTPServer):
    """Threads that never outlive the test, and the connections that they keep."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *arguments: Any) -> None:
        self.kept: list[socket.socket] = []
        super().__init__(*arguments)

    def handle_error(self, *_: Any) -> None:
        pass  # a hostd that is killed cuts its connection


class Hostd:
    """The real process, its log in a file."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.run_dir = directory / "run"
        self.log = directory / "hostd.log"
        self._arguments = [*arguments, "--run-dir", str(self.run_dir)]
        self.process = self._start()

    def _start(self) -> "Forked | subprocess.Popen[bytes]":
        return Forked(HOSTD, self._arguments, self.log)

    def restart(self) -> None:
        self.process = self._start()

    def kill(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)

    def state(self) -> dict[str, Any]:
        """The status file, {} before the first."""
        with contextlib.suppress(FileNotFoundError):
            return dict(json.loads((self.run_dir / "status.json").read_bytes()))
        return {}

    def send(self, datagram: bytes | RecordBatch) -> None:
        """What a shim does, but waiting for room."""
        content = encode_records(datagram) if isinstance(datagram, RecordBatch) else datagram
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(self.run_dir / "records"))
            sender.send(content)
