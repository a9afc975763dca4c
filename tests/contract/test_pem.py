"""What is wrong with PEM files is said of the file that it is wrong with."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from qclimb import pem
from qclimb.errors import QclimbError


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A certificate and key, the key encrypted, another key, and a certificate whose key is too short for TLS."""
    for name, bits in (("good", 2048), ("short", 1024)):
        key = rsa.generate_private_key(65537, bits)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
        now = datetime.now(UTC)
        made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
        (tmp_path / f"{name}.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
        for kind, cipher in (("key", NoEncryption()), ("encrypted", BestAvailableEncryption(b"word"))):
            text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, cipher)
            (tmp_path / f"{name}.{kind}").write_bytes(text)
    return tmp_path


@pytest.mark.parametrize(
    ("certificate", "key", "ca", "sentence"),
    [
        ("short.pem", "short.key", None, "short.pem: its key is too short, expected one that OpenSSL takes"),
        ("good.pem", "short.key", None, "short.key: belongs to another certificate"),
        ("good.pem", "good.encrypted", None, "good.encrypted: holds no private key, expected .* not encrypted"),
        ("good.pem", "good.pem", None, "good.pem: holds no private key"),
        ("good.key", "good.key", None, "good.key: holds no certificate"),
        ("good.pem", "good.key", "short.key", "short.key: holds no certificate"),
        ("good.pem", "none.key", None, "none.key: No such file or directory"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_of_that_file(
    files: Path, certificate: str, key: str, ca: str | None, sentence: str
) -> None:
    with pytest.raises(QclimbError, match=sentence):
        pem.check(files / certificate, files / key, None if ca is None else files / ca)
    pem.check(files / "good.pem", files / "good.key", files / "good.pem")
