"""The fabric's switches by gNMI over mTLS: how one is reached. What is said to it is door.py's, or sonic_door.py's."""

import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from qclimb import pem
from qclimb.switch_state import SwitchState

from ..errors import FleetError
from ..store.store import Switch
from . import door, sonic_door
from .door import Door
from .session import Session, reason_of, short
from .sonic_door import SonicDoor

ALERT_S = 0.5
SessionKey = tuple[str, str, str | None]


class Fleet:
    """mTLS to any switch of the fabric, with one client certificate; without one no switch is reached."""

    def __init__(
        self, certificate: Path | None, key: Path | None, ca: Path | None, connect_timeout_s: float = 3.0
    ) -> None:
        """Raises QclimbError where the files make no client certificate, or no CA.

        term  what every Set carries as its election id, so that an orchestrator that was replaced changes no switch
        """
        self.files = (certificate, key, ca) if certificate and key and ca else None
        if self.files:
            pem.check(*self.files)
        self.connect_timeout_s = connect_timeout_s
        self.term = 0
        self._kept: dict[SessionKey, Session] = {}
        self._doors: dict[str, type[Door | SonicDoor]] = {}

    def state(self, switch: Switch) -> SwitchState:
        """What the switch tells of spines, over a session that stays open. One call at a time a switch."""
        key = _key_of(switch)
        if key not in self._kept:
            self._kept[key] = self._open(switch)
        try:
            return self._door(switch, self._kept[key]).state()
        except BaseException:
            self._kept.pop(key).close()
            raise

    def keep_sessions(self, switches: Iterable[Switch]) -> None:
        """Closes the sessions that stay open but for those with these switches. Not while `state` is called."""
        for key in self._kept.keys() - {_key_of(switch) for switch in switches}:
            self._kept.pop(key).close()

    def longest_push_s(self, name: str, deadline_s: float) -> float:
        """How long a push to that switch takes at most; of one that was not met yet: at the slowest server."""
        doors = (self._doors[name],) if name in self._doors else (Door, SonicDoor)
        return self.connect_timeout_s + max(door.longest_commit_s(deadline_s) for door in doors)

    def certificate_ends(self, switch: Switch) -> float:
        """When the certificate that the switch shows ends, s since 1970. Raises FleetError."""
        if self.files is None:
            raise FleetError(f"switch {switch.name} can't be reached: there are no certificates", changed=False)
        certificate, key, ca = self.files
        host, _ = switch.endpoint
        try:
            context = ssl.create_default_context(cafile=str(ca))
            context.load_cert_chain(certificate, key)
            context.set_alpn_protocols(["h2"])
            with (
                socket.create_connection(switch.endpoint, self.connect_timeout_s) as plain,
                context.wrap_socket(plain, server_hostname=switch.server_name or host) as tls,
            ):
                shown: Any = tls.getpeercert() or {}
                return float(ssl.cert_time_to_seconds(shown["notAfter"]))
        except (OSError, KeyError) as error:  # ssl.SSLError is one
            raise FleetError(f"switch {switch.name} at {switch.address}: TLS: {error}", changed=False) from error

    @contextmanager
    def at(self, switch: Switch) -> Iterator[Door | SonicDoor]:
        """A switch to be told something, over one session. FleetError.absent: it can't be reached."""
        session = self._open(switch)
        try:
            yield self._door(switch, session)
        finally:
            session.close()

    def _door(self, switch: Switch, session: Session) -> Door | SonicDoor:
        """By what its server serves: qclimb's own, or SONiC's."""
        if door.MODEL in session.models:
            self._doors[switch.name] = Door
            return Door(switch, session, self.term)
        if sonic_door.MODEL in session.models:
            self._doors[switch.name] = SonicDoor
            return SonicDoor(switch, session)
        models = short(", ".join(sorted(session.models))) or "none"
        said = f"serves the models {models}, expected {door.MODEL} or {sonic_door.MODEL}"
        raise FleetError(f"switch {switch.name} at {switch.address}: {said}", changed=False)

    def _open(self, switch: Switch) -> Session:
        if self.files is None:
            reason = "the orchestrator was started without certificates for switches (--switch-cert, -key, -ca)"
            raise FleetError(f"switch {switch.name} can't be reached: {reason}", changed=False)
        certificate, key, ca = self.files
        place = f"switch {switch.name} at {switch.address}"
        try:
            socket.create_connection(switch.endpoint, self.connect_timeout_s).close()
        except TimeoutError as error:
            said = f"{place}: no answer within {self.connect_timeout_s} s"
            raise FleetError(said, changed=False, absent=True) from error
        except OSError as error:
            raise FleetError(f"{place}: {error.strerror or error}", changed=False, absent=True) from error
        try:
            return Session(switch.endpoint, self.files, switch.server_name, self.connect_timeout_s)
        except Exception as error:
            self._say_what_is_wrong(switch, certificate, key, ca)
            raise FleetError(f"{place}: {reason_of(error)}", changed=False, absent=True) from error

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
            said = f"{place}: no answer within {self.connect_timeout_s} s"
            raise FleetError(said, changed=False, absent=True) from error
        except OSError as error:  # ssl.SSLError is one
            raise FleetError(
                f"{place}: {error.strerror or error}", changed=False, absent=not isinstance(error, ssl.SSLError)
            ) from error


def _key_of(switch: Switch) -> SessionKey:
    return (switch.name, switch.address, switch.server_name)
