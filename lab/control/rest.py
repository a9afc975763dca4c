"""A REST client of the fabric's orchestrator, usable from the root namespace.

The orchestrator listens in the management namespace alone. A connection belongs to the namespace that its socket was
made in, so the client enters it for the moment of a request: no port, no relay and no cable in the machine's own
namespace.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from qclimb.rest import client_tls, parse_token

from lab.fabric import netns
from lab.fabric.topology import FabricError

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric


class RestError(FabricError):
    """The orchestrator refused a request; `status` is HTTP's, the text names request and reason."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class NetnsTransport(httpx.HTTPTransport):
    """Makes its sockets in a network namespace."""

    def __init__(self, namespace: str, ca: Path) -> None:
        super().__init__(verify=client_tls(ca), trust_env=False)
        self._namespace = namespace

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request from within the namespace; only the calling thread is there meanwhile."""
        with netns.entered(self._namespace):
            return super().handle_request(request)


class NetnsRest:
    """JSON in, JSON out; a status of 400 or above raises RestError."""

    def __init__(self, base_url: str, ca: Path, token: str, namespace: str, timeout_s: float = 900) -> None:
        self.base_url = base_url
        self.http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"},
            transport=NetnsTransport(namespace, ca),
            timeout=timeout_s,
            trust_env=False,
        )

    def request(self, method: str, path: str, body: Any = None, **params: str) -> Any:
        """One request.

        Raises:
            RestError: refused. httpx.TransportError: no answer.
        """
        answer = self.http.request(method, path, json=body, params=params or None)
        if answer.is_error:
            raise RestError(f"{method} {path}: {answer.status_code} {answer.text.strip()}", answer.status_code)
        kind = answer.headers.get("content-type", "")
        if not answer.content:
            return None
        return answer.json() if "json" in kind else answer.text if kind.startswith("text/") else answer.content

    def get(self, path: str, **params: str) -> Any:
        """GET."""
        return self.request("GET", path, **params)

    def put(self, path: str, body: Any) -> Any:
        """PUT."""
        return self.request("PUT", path, body)

    def post(self, path: str, body: Any) -> Any:
        """POST."""
        return self.request("POST", path, body)

    def close(self) -> None:
        """Closes its connections."""
        self.http.close()

    def __enter__(self) -> NetnsRest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def client(fabric: Fabric) -> NetnsRest:
    """The orchestrator of a fabric that has a control plane, as its administrator.

    Raises:
        FabricError: the fabric has links only.
    """
    control = fabric.record.control
    if not control:
        raise FabricError(f"the fabric {fabric.prefix} is up without a control plane")
    token = parse_token(Path(control["token_file"]).read_bytes())
    return NetnsRest(control["rest"], Path(control["ca"]), token, fabric.netns("mgmt"))
