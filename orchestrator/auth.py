"""Who may do what: bearer tokens, of which the store has only SHA-256 digests, and four roles. Deny by default.

Tokens are 256 random bits, so a plain digest is as good as a slow one: there is nothing to guess.
"""

import hashlib
import os
import secrets
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .errors import StoreError
from .store import Store

PREFIX = "qct_"


class Role(StrEnum):
    """viewer reads; host acts for the host of its name; operator changes the fabric; admin also devices and tokens."""

    VIEWER = "viewer"
    HOST = "host"
    OPERATOR = "operator"
    ADMIN = "admin"


INCLUDES = {
    Role.VIEWER: {Role.VIEWER},
    Role.HOST: {Role.HOST},
    Role.OPERATOR: {Role.OPERATOR, Role.VIEWER},
    Role.ADMIN: {Role.ADMIN, Role.OPERATOR, Role.VIEWER, Role.HOST},
}


@dataclass(frozen=True)
class Caller:
    """Who sent a request."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the caller's role includes `role`."""
        return role in INCLUDES[self.role]


def digest(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue(store: Store, name: str, role: Role) -> str:
    """Makes a token; this is the only time that it can be seen."""
    token = PREFIX + secrets.token_urlsafe(32)
    store.add_token(name, role.value, digest(token))
    return token


def identify(store: Store, authorization: str | None) -> Caller | None:
    """The caller of an Authorization header, None for no or an unknown token."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return None
    found = store.token(digest(token.strip()))
    return None if found is None else Caller(found[0], Role(found[1]))


def bootstrap(store: Store, file: Path) -> bool:
    """Writes a new admin token into `file` (0600) at the first start; True when it did.

    A file that is there already must hold a token that the store knows: never a silent second admin.
    """
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        try:
            held = file.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise StoreError(f"{file}: {error}, expected the first admin token") from error
        if identify(store, f"Bearer {held.strip()}") is None:
            raise StoreError(
                f"{file}: holds no token of this database, expected the one written at its first start; "
                "remove the file to get a new admin token"
            ) from None
        return False
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror}, expected a place for the first admin token") from error
    with os.fdopen(handle, "w", encoding="ascii") as opened:
        opened.write(issue(store, "bootstrap", Role.ADMIN) + "\n")
    return True
