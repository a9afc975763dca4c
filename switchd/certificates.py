"""The server's certificate, key and CA: read anew when their files change, for whoever connects from then on."""

import logging
from collections.abc import Sequence
from pathlib import Path

import grpc
from qclimb import pem
from qclimb.errors import QclimbError

log = logging.getLogger("switchd")

Stamp = tuple[object, ...]


class Certificates:
    """`files`: certificate, key, CA. `stale`: why new files are not taken; empty where they are, or there are none."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = tuple(files)
        self.stale = ""
        self._stamp: Stamp = ()

    def check(self) -> None:
        """Raises OSError or QclimbError where the files make no server."""
        pem.check(*self.files)

    def credentials(self) -> grpc.ServerCredentials:
        """For a server; each new connection looks whether the files changed. Raises OSError, QclimbError."""
        self.check()
        stamp, first = self._stamped(), self._configuration()
        self._stamp = stamp
        return grpc.dynamic_ssl_server_credentials(first, self._renewed, require_client_authentication=True)

    def _renewed(self) -> grpc.ServerCertificateConfiguration | None:
        """The files' content if they changed and are good; None: go on with what there is."""
        try:
            stamp = self._stamped()
            if stamp == self._stamp:
                return None
            self.check()
            found = self._configuration()
        except (OSError, QclimbError) as error:
            why = f"certificates changed and can't be taken, the old ones go on: {error}"
            if why != self.stale:
                log.warning("gnmi %s", why)
            self.stale = why
            return None
        self._stamp, self.stale = stamp, ""
        log.info("gnmi certificates=renewed file=%s", self.files[0])
        return found

    def _stamped(self) -> Stamp:
        stats = [path.stat() for path in self.files]
        return self.files, *((one.st_ino, one.st_size, one.st_mtime_ns) for one in stats)

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        certificate, key, ca = (path.read_bytes() for path in self.files)
        return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=ca)
