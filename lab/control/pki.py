"""Certificates for one fabric: a CA, servers and clients, in a directory. For the lab only: keys lie beside them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM files."""

    certificate: Path
    key: Path


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + LIFETIME)
    )


def _usage(**true: bool) -> x509.KeyUsage:
    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: true.get(name, False) for name in names})


class Authority:
    """A CA that lives as long as this object; its key is never written."""

    def __init__(self, directory: Path, name: str = "qclimb lab CA") -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = (
            _builder(name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = directory / "ca.pem"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, name: str, *addresses: str) -> Pair:
        """For a server that is reached by these IP addresses, or by its name."""
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        names += [x509.IPAddress(ip_address(address)) for address in addresses]
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))

    def client(self, common_name: str) -> Pair:
        """For a client whose role hangs on its common name."""
        return self._issue(common_name, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(self, name: str, usage: x509.ObjectIdentifier, alternatives: x509.SubjectAlternativeName | None) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(name, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(authority, critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        certificate = builder.sign(self._key, hashes.SHA256())
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with os.fdopen(os.open(pair.key, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(text)
        return pair
