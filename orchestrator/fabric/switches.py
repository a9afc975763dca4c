"""Switches by gNMI: the only user of pygnmi.

An intent goes out as ONE Set replace of /qclimb, which a switch takes whole or not at all, and counts as applied only
when the switch reads back its generation. Every failure is a FleetError: one sentence with switch, path and reason.
"""

import json
import socket
import ssl
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qclimb import pem
from qclimb.errors import IntentError
from qclimb.intent import SwitchIntent
from qclimb.switch_state import SwitchState

from ..errors import FleetError
from ..store.store import Switch

ROOT = "/qclimb:qclimb"
APPLIED = f"{ROOT}/state/applied-generation"
LAST_ERROR = f"{ROOT}/state/last-error"
CALL_TIMEOUT_S = 10
POLL_S = 0.05
ALERT_S = 0.5


@dataclass(frozen=True)
class Told:
    """What a switch says of itself.

    verification  how it knows that the applied generation holds: seen, pending, unverified; empty: it does not say
    ports         how many ports have each status
    """

    verification: str
    ports: Mapping[str, int]


class Fleet:
    """mTLS to any switch of the fabric, with one client certificate; without one no switch is reached."""

    def __init__(
        self, certificate: Path | None, key: Path | None, ca: Path | None, connect_timeout_s: float = 3.0
    ) -> None:
        """Raises QclimbError where the files make no client certificate, or no CA."""
        self.files = (certificate, key, ca) if certificate and key and ca else None
        if self.files:
            pem.check(*self.files)
        self.connect_timeout_s = connect_timeout_s
        self._kept: dict[tuple[str, str, str | None], tuple[Any, Any]] = {}

    def state(self, switch: Switch) -> SwitchState:
        """What the switch tells of spines, over a session that stays open. One call at a time a switch."""
        key = (switch.name, switch.address, switch.server_name)
        if key not in self._kept:
            self._kept[key] = self._open(switch)
        client, session = self._kept[key]
        try:
            return SwitchState.from_gnmi(_get(switch, session, ROOT, "state"))
        except IntentError as error:
            raise FleetError(f"switch {switch.name}: its state can't be read: {error}", changed=False) from error
        except FleetError:
            del self._kept[key]
            client.close()
            raise

    def intent(self, switch: Switch) -> SwitchIntent | None:
        """What the switch was last told; None when it holds nothing of qclimb."""
        with self._session(switch) as session:
            found = _get(switch, session, ROOT, "config")
        if not found:
            return None
        try:
            return SwitchIntent.from_gnmi(found)
        except IntentError as error:
            if isinstance(found, dict) and not _generation(found):
                return None  # never configured
            reason = f"{error}; so it could not be given back"
            raise FleetError(f"switch {switch.name}: has an intent of another kind: {reason}", changed=False) from error

    def told(self, switch: Switch) -> Told:
        """How far the switch's ASIC has come with what it was last told. Raises FleetError."""
        with self._session(switch) as session:
            verification = _get(switch, session, f"{ROOT}/state/verification", "state")
            found = _get(switch, session, f"{ROOT}/ports", "state")
        entries: list[Any] = [] if not isinstance(found, dict) else next(iter(found.values()), [])
        states = [_local(one).get("state", {}) for one in entries if isinstance(one, dict)]
        statuses = Counter(str(_local(state).get("status", "")) for state in states if isinstance(state, dict))
        return Told(str(verification or ""), dict(statuses))

    def apply(self, switch: Switch, intent: SwitchIntent | None, deadline_s: float) -> int:
        """Sets the intent (None: takes everything of qclimb away) and waits until the switch reports it as applied.

        Returns the applied generation. FleetError.changed tells whether the switch may have changed all the same.
        """
        with self._session(switch) as session:
            self._set(switch, session, intent)
            if intent is None:
                return 0
            return _await_applied(switch, session, intent.generation, deadline_s)

    def _set(self, switch: Switch, session: Any, intent: SwitchIntent | None) -> None:
        try:
            if intent is None:
                session.set(delete=[ROOT], encoding="json_ietf")
            else:
                (tree,) = intent.to_gnmi().values()
                session.set(replace=[(ROOT, tree)], encoding="json_ietf")
        except Exception as error:
            unsure = "DEADLINE" in repr(error).upper() or "UNAVAILABLE" in repr(error).upper()
            said = f"switch {switch.name}: Set {ROOT}: {_reason(error)}"
            raise FleetError(said, changed=unsure, refused=not unsure) from error

    @contextmanager
    def _session(self, switch: Switch) -> Iterator[Any]:
        client, session = self._open(switch)
        try:
            yield session
        finally:
            client.close()

    def _open(self, switch: Switch) -> tuple[Any, Any]:
        """A client, and its session."""
        if self.files is None:
            reason = "the orchestrator was started without certificates for switches (--switch-cert, -key, -ca)"
            raise FleetError(f"switch {switch.name} can't be reached: {reason}", changed=False)
        certificate, key, ca = self.files
        self._say_what_is_wrong(switch, certificate, key, ca)
        from pygnmi.client import gNMIclient  # half a second of protobuf, only where a switch is spoken to

        deadlines = json.dumps({"methodConfig": [{"name": [{}], "timeout": f"{CALL_TIMEOUT_S}s"}]})
        client = gNMIclient(
            target=switch.endpoint,
            path_cert=str(certificate),
            path_key=str(key),
            path_root=str(ca),
            override=switch.server_name,
            gnmi_timeout=self.connect_timeout_s,
            grpc_options=[("grpc.service_config", deadlines), ("grpc.use_local_subchannel_pool", 1)],
            no_qos_marking=True,
        )
        try:
            return client, client.connect()
        except Exception as error:
            client.close()
            raise FleetError(f"switch {switch.name} at {switch.address}: {_reason(error)}", changed=False) from error

    def _say_what_is_wrong(self, switch: Switch, certificate: Path, key: Path, ca: Path) -> None:
        """One TLS handshake of our own: gRPC only ever says that a channel did not become ready in time."""
        host, _ = switch.endpoint
        place = f"switch {switch.name} at {switch.address}"
        try:
            context = ssl.create_default_context(cafile=str(ca))
            context.load_cert_chain(certificate, key)
            context.set_alpn_protocols(["h2"])
            with (
                socket.create_connection(switch.endpoint, self.connect_timeout_s) as plain,
                context.wrap_socket(plain, server_hostname=switch.server_name or host) as tls,
            ):
                tls.settimeout(ALERT_S)
                with suppress(TimeoutError):
                    if not tls.recv(1):  # TLS 1.3 servers refuse a client's certificate only after the handshake
                        reason = f"TLS: ended by the switch, which seems not to trust {certificate}"
                        raise FleetError(f"{place}: {reason}", changed=False)
        except ssl.SSLCertVerificationError as error:
            raise FleetError(f"{place}: TLS: {error.verify_message}", changed=False) from error
        except TimeoutError as error:
            raise FleetError(f"{place}: no answer within {self.connect_timeout_s} s", changed=False) from error
        except OSError as error:  # ssl.SSLError is one
            raise FleetError(f"{place}: {error.strerror or error}", changed=False) from error


def _local(members: Mapping[str, Any]) -> dict[str, Any]:
    """Members by their names without module prefixes."""
    return {name.rpartition(":")[2]: value for name, value in members.items()}


def _generation(tree: Any) -> Any:
    """That of a configuration as a switch tells it, with or without module prefixes; None where there is none."""
    return _local(_local(tree).get("config", {})).get("generation")


def _await_applied(switch: Switch, session: Any, generation: int, deadline_s: float) -> int:
    """Polls the applied generation until it is the wanted one."""
    end = time.monotonic() + deadline_s
    found: Any = None
    while True:
        try:
            found = _get(switch, session, APPLIED, "state")
        except FleetError as error:
            raise FleetError(str(error), changed=True) from error
        if found is not None and str(found) == str(generation):
            return generation
        if time.monotonic() >= end:
            break
        time.sleep(POLL_S)
    try:
        reason = _get(switch, session, LAST_ERROR, "state")
    except FleetError:
        reason = None
    because = f"; it says: {reason}" if reason else ""
    raise FleetError(
        f"switch {switch.name}: {APPLIED} is {found or 'not there'} after {deadline_s:g} s, "
        f"expected {generation}{because}",
        changed=True,
    )


def _get(switch: Switch, session: Any, path: str, datatype: str) -> Any:
    """The value at a path, None when there is none."""
    try:
        answer = session.get(path=[path], datatype=datatype, encoding="json_ietf")
    except Exception as error:
        if "NOT_FOUND" in repr(error) or "NOT_FOUND" in repr(getattr(error, "orig_exc", "")):
            return None
        raise FleetError(f"switch {switch.name}: Get {path}: {_reason(error)}", changed=False) from error
    values = [
        update["val"]
        for notification in answer.get("notification", [])
        for update in notification.get("update", []) or []
    ]
    return values[0] if values else None


def _reason(error: Exception) -> str:
    """What a gRPC or pygnmi exception has to say, in one line."""
    origin = getattr(error, "orig_exc", None) or error.__cause__ or error
    if hasattr(origin, "code") and hasattr(origin, "details"):
        return f"{origin.code().name}: {' '.join(str(origin.details()).split())}"
    return " ".join(str(error).split()) or type(error).__name__
