"""The gNMI server's doors: addresses and certificates, and when they open.

With `--tls-cert` and its like, files that make no server end the process: somebody wrote them on the command line. On
a switch they are those of SONiC's own gNMI server (CONFIG_DB, GNMI|certs): where they are missing or bad, QoS runs,
the doors stay closed, the status says why, and it is tried again. The addresses may be the switch's own, too: those
of its management interface and loopback, which may come later, or change.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from qclimb.errors import QclimbError

from switchd.addresses import management
from switchd.apply import Switch
from switchd.certificates import Certificates
from switchd.db import DatabaseLost
from switchd.gnmi.limits import Limits
from switchd.gnmi.server import Listening, Servers

log = logging.getLogger("switchd")

STOP_GRACE_S = 1.0
CERTS = ("server_crt", "server_key", "ca_crt")


class Door:
    """One address. `certificates`: None: a plain loopback. `why`: it is closed; empty where it is not."""

    def __init__(self, servers: Servers, address: str, certificates: Certificates | None) -> None:
        self._servers, self._address, self._certificates = servers, address, certificates
        self._listening: Listening | None = None
        self.why = ""

    @property
    def is_open(self) -> bool:
        """Whether it serves."""
        return self._listening is not None

    def open(self) -> None:
        """Serve, if it is not done yet. Raises OSError, ValueError or QclimbError where it can't."""
        if self._listening is not None:
            return
        credentials = None if self._certificates is None else self._certificates.credentials()
        self._listening = self._servers.start(self._address, credentials)
        tls = "mutual" if credentials else "none"
        log.info("ready address=%s port=%d tls=%s", self._address, self._listening.port, tls)

    def close(self) -> None:
        """End the server, with a moment's grace for what runs."""
        if self._listening is not None:
            self._listening.stop(STOP_GRACE_S)
            self._listening = None


class Doors:
    """All of them.

    listen      ADDR:PORT; or a port alone: on the management interface's addresses and loopback
    plain       ADDR:PORT on loopback without TLS
    files       certificate, key, CA; None: those of GNMI|certs
    """

    def __init__(
        self,
        switch: Switch,
        listen: Sequence[str],
        plain: str | None,
        files: Sequence[Path] | None,
        limits: Limits | None = None,
    ) -> None:
        self._switch, self._listen, self._is_given = switch, listen, files is not None
        self._certificates = Certificates(files or ())
        self._servers = Servers(switch, limits)
        self._plain = None if plain is None else Door(self._servers, plain, None)
        self._doors: dict[str, Door] = {}

    def open(self) -> None:
        """At start: what the command line alone tells must be good. Raises OSError, ValueError or QclimbError."""
        if self._is_given and self._listen:
            self._certificates.check()
            for address in self._listen:
                if ":" in address:
                    self._door(address).open()
        if self._plain is not None:
            self._plain.open()
        self.beat()

    def beat(self) -> None:
        """Open what can be opened, close what is no address of ours any more, and say why not.

        Nothing of that while CONFIG_DB is away or half loaded.
        """
        try:
            addresses = [one for each in self._listen for one in self._addresses(each)]
            why = self._why_no_files() if addresses else ""
        except DatabaseLost as error:
            log.debug("gnmi error=%r", str(error))
            return
        for address in [one for one in self._doors if one not in addresses]:
            log.info("closed address=%s", address)
            self._doors.pop(address).close()
        for address in addresses if not why else ():
            try:
                self._door(address).open()
            except (OSError, ValueError, QclimbError) as error:
                why = why or f"{error}"
        is_open = any(each.is_open for each in self._doors.values())
        why = f"{'not everywhere' if is_open else 'closed'}: {why}" if why else self._certificates.stale
        if why != self._switch.board.door and why:
            log.warning("gnmi %s", why)
        self._switch.board.door = why

    def close(self) -> None:
        """End all."""
        for door in (*self._doors.values(), *([self._plain] if self._plain else ())):
            door.close()
        self._servers.close()

    def _door(self, address: str) -> Door:
        return self._doors.setdefault(address, Door(self._servers, address, self._certificates))

    def _addresses(self, listen: str) -> list[str]:
        return [listen] if ":" in listen else [f"{host}:{listen}" for host in management(self._switch.host)]

    def _why_no_files(self) -> str:
        """Take the files of GNMI|certs, where they are asked for."""
        if self._is_given:
            return ""
        row = self._switch.host.get_whole_entry("GNMI", "certs")
        if missing := [name for name in CERTS if not row.get(name)]:
            return f"GNMI|certs has no {', '.join(missing)}"
        self._certificates.files = tuple(Path(row[name]) for name in CERTS)
        return ""
