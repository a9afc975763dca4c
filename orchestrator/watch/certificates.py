"""Until when certificates in files hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Whose it is, what it is for, and when it ends (s since 1970; None: it can't be read)."""

    name: str
    purpose: str
    ends_at: float | None


def in_files(files: Mapping[str, Path]) -> list[Certificate]:
    """The first certificate of each PEM file; `files` by what they are for."""
    from cryptography import x509  # 10 MB, only where it is asked for

    found = []
    for purpose, path in files.items():
        try:
            first = x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            found.append(Certificate(str(path), purpose, None))
        else:
            found.append(Certificate(first.subject.rfc4514_string(), purpose, first.not_valid_after_utc.timestamp()))
    return found
