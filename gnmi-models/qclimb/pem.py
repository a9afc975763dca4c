"""Whether PEM files can make one end of a TLS connection; asked at start, for gRPC says only that it can't listen."""

import ssl
from pathlib import Path

from .errors import QclimbError

TOO_WEAK = {"EE_KEY_TOO_SMALL": "its key is too short", "CA_MD_TOO_WEAK": "its signature's digest is too weak"}
"""OpenSSL's reasons against a certificate at its security level."""


def check(certificate: Path, key: Path, ca: Path | None = None) -> None:
    """Refuses files that can't be read, are no PEM, or do not belong together; QclimbError names the file.

    `ca`: what the other end's certificate must come from. Dates are not looked at: whoever connects says so.
    """
    for path in (certificate, key, *(() if ca is None else (ca,))):
        try:
            path.read_bytes()
        except OSError as error:
            raise QclimbError(f"{path}: {error.strerror}, expected a PEM file") from None
    for path in (certificate, *(() if ca is None else (ca,))):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except ssl.SSLError:
            raise QclimbError(f"{path}: holds no certificate, expected a PEM file with one") from None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=lambda: "")  # never asks
    except ssl.SSLError as error:
        if error.reason in TOO_WEAK:
            raise QclimbError(f"{certificate}: {TOO_WEAK[error.reason]}, expected one that OpenSSL takes") from None
        reason = "belongs to another certificate" if error.reason == "KEY_VALUES_MISMATCH" else "holds no private key"
        raise QclimbError(f"{key}: {reason}, expected the PEM key of {certificate}, not encrypted") from None
