"""An open service behind the real HTTP server, on a loopback port."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import uvicorn

from orchestrator.rest.app import make_app
from orchestrator.rest.server import Server
from orchestrator.rest.service import Service


class _Quiet(Server):
    """Leaves signals to pytest."""

    def capture_signals(self):  # type: ignore[no-untyped-def]
        return nullcontext()


@contextmanager
def served(service: Service) -> Iterator[str]:
    """Its URL."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    is_ready = threading.Event()
    config = uvicorn.Config(
        make_app(service), access_log=False, log_config=None, server_header=False, timeout_graceful_shutdown=1
    )
    server = _Quiet(config, listening, is_ready.set)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert is_ready.wait(30)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
