"""The gNMI server's door: its address and certificates, and when it opens.

With `--tls-cert` and its like, files that make no server end the process: somebody wrote them on the command line. On
a switch they are those of SONiC's own gNMI server (CONFIG_DB, GNMI|certs): where they are missing or bad, QoS runs,
the door stays closed, the status says why, and it is tried again.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import grpc
from qclimb import pem
from qclimb.errors import QclimbError

from switchd.apply import Switch
from switchd.gnmi.server import Servicer, Tls, start

log = logging.getLogger("switchd")

STOP_GRACE_S = 1.0
CERTS = ("server_crt", "server_key", "ca_crt")


class Door:
    """One address. `files`: certificate, key, CA; None: those of GNMI|certs, or none on a plain loopback."""

    def __init__(self, switch: Switch, address: str, files: Sequence[Path] | None, plain: bool = False) -> None:
        self._switch, self._address, self._files, self._plain = switch, address, files, plain
        self._servicer: Servicer | None = None
        self._server: grpc.Server | None = None

    @property
    def may_wait(self) -> bool:
        """Whether it may stay closed."""
        return self._files is None and not self._plain

    def open(self, must: bool = False) -> None:
        """Serve, if it is not done yet. With `must` raises OSError, ValueError or QclimbError where it can't."""
        if self._server is not None:
            return
        try:
            tls = None if self._plain else self._tls()
            servicer = Servicer(self._switch, self._plain)
            self._server, port = start(servicer, self._address, tls)
            self._servicer = servicer
        except (OSError, ValueError, QclimbError) as error:
            if must:
                raise
            why = f"closed: {error}"
            if why != self._switch.board.door:
                log.warning("gnmi %s", why)
            self._switch.board.door = why
            return
        if self.may_wait:
            self._switch.board.door = ""
        log.info("ready address=%s port=%d tls=%s", self._address, port, "none" if self._plain else "mutual")

    def _tls(self) -> Tls:
        files = self._files
        if files is None:
            row = self._switch.db.get_entry("GNMI", "certs")
            if missing := [name for name in CERTS if not row.get(name)]:
                raise QclimbError(f"GNMI|certs has no {', '.join(missing)}")
            files = [Path(row[name]) for name in CERTS]
        pem.check(*files)
        return Tls(*(path.read_bytes() for path in files))

    def close(self) -> None:
        """End the server, with a moment's grace for what runs."""
        if self._server is not None and self._servicer is not None:
            self._servicer.closing.set()
            self._server.stop(STOP_GRACE_S).wait(2 * STOP_GRACE_S)
