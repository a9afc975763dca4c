"""Certificates of one fabric in a folder: a CA, servers, clients. Its user distributes them; `ca.key` stays there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .errors import QclimbError

CA_LIFETIME, LIFETIME = timedelta(days=3650), timedelta(days=365)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


def is_name(name: str) -> bool:
    """Whether a certificate, and so its file, may be called that."""
    return re.fullmatch(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,62}", name) is not None


class Authority:
    """The CA of a folder: what `ca.pem` and `ca.key` hold, or a new one where neither is there.

    Raises QclimbError: one of both is missing or is no CA's, or the folder can't be written.
    """

    def __init__(self, directory: Path, name: str = "qclimb CA") -> None:
        self.directory = directory
        self.certificate, key = directory / "ca.pem", directory / "ca.key"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not self.certificate.exists() and not key.exists():
                _make(name, Pair(self.certificate, key))
            self._certificate = x509.load_pem_x509_certificate(self.certificate.read_bytes())
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        except OSError as error:
            raise QclimbError(
                f"{error.filename}: {error.strerror}, expected a folder with ca.pem and ca.key, or one to write them to"
            ) from None
        except (ValueError, TypeError):
            raise QclimbError(f"{directory}: ca.pem or ca.key can't be read, expected a CA as this made it") from None
        if not isinstance(loaded, ec.EllipticCurvePrivateKey) or loaded.public_key() != self._certificate.public_key():
            raise QclimbError(f"{key}: is not the key of {self.certificate}, expected the one that was made with it")
        self._key = loaded

    def server(self, name: str, *addresses: str) -> Pair:
        """For a server that is reached by these IP addresses, or by its name. Raises QclimbError."""
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        names += [x509.IPAddress(ip_address(address)) for address in addresses]
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, common_name: str) -> Pair:
        """For a client whose role hangs on its common name. Raises QclimbError."""
        return self._issue(common_name, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(self, name: str, usage: x509.ObjectIdentifier, alternatives: x509.SubjectAlternativeName | None) -> Pair:
        if name == "ca" or not is_name(name):
            raise QclimbError(f"certificate of {name!r}: expected a name of letters, digits, _, . and -, and not ca")
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(_name(name), self._certificate.subject, key.public_key(), LIFETIME)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        try:
            _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        except OSError as error:
            raise QclimbError(f"{error.filename}: {error.strerror}, expected a place for a certificate") from None
        return pair


def _make(name: str, pair: Pair) -> None:
    """A new CA, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(_name(name), _name(name), key.public_key(), CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(pair, certificate, key)


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    """Both files, whole; where that fails, what was there stays. The key is its owner's alone.

    The certificate comes last: where it is, its key was kept.
    """
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    parts = [path.with_name(f".{path.name}.new") for path in (pair.key, pair.certificate)]
    try:
        parts[0].unlink(missing_ok=True)
        with os.fdopen(os.open(parts[0], os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
        parts[1].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        parts[0].replace(pair.key)
        parts[1].replace(pair.certificate)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + lifetime)
    )


def _usage(**true: bool) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: true.get(name, False) for name in names})
