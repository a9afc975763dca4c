"""An open service behind the real HTTP server, on a loopback port."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from orchestrator.rest.app import make_app
from orchestrator.rest.server import Server, configure_server
from orchestrator.rest.service import Service


class _Quiet(Server):
    """Leaves signals to pytest."""

    def capture_signals(self):  # type: ignore[no-untyped-def]
        return nullcontext()


@contextmanager
def served(service: Service, trusted_proxies: Sequence[str] = ()) -> Iterator[str]:
    """Its URL."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    is_ready = threading.Event()
    config = configure_server(make_app(service), trusted_proxies=trusted_proxies)
    server = _Quiet(config, listening, is_ready.set)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert is_ready.wait(30)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
