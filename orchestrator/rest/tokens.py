"""Who may do what: bearer tokens, of which the store has only SHA-256 digests, and four roles. Deny by default.

Tokens are 256 random bits, so a plain digest is as good as a slow one: there is nothing to guess.
"""

import contextlib
import hashlib
import os
import secrets
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ..actors import is_reserved
from ..errors import StoreError
from ..store.store import Store

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
    expires_at: float | None = None

    @property
    def is_expired(self) -> bool:
        """The token's time is over."""
        return self.expires_at is not None and time.time() >= self.expires_at

    def may(self, role: Role) -> bool:
        """Whether the caller's role includes `role`."""
        return role in INCLUDES[self.role]


def digest(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def issue(store: Store, name: str, role: Role, expires_at: float | None = None) -> str:
    """Makes a token; this is the only time that it can be seen. `expires_at`: s since 1970; None: never."""
    token = _new()
    store.add_token(name, role.value, digest(token), expires_at)
    return token


def _new() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def identify(store: Store, authorization: str | None) -> Caller | None:
    """The caller of an Authorization header, None for no, an unknown or an expired token."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return None
    found = store.token(digest(token.strip()))
    if found is None:
        return None
    role = Role(found.role)
    # A token that an older version made; a host's stays the host's, which makes no rollouts.
    name = f"token {found.name}" if is_reserved(found.name) and role is not Role.HOST else found.name
    caller = Caller(name, role, found.expires_at)
    return None if caller.is_expired else caller


def bootstrap(store: Store, file: Path) -> bool:
    """Writes a new admin token into `file` (0600) at the first start; True when it did.

    Of several orchestrators that share a database, the first that leads does.

    A file that is there already must hold a token that the store knows: never a silent second admin. It is there once
    both are kept, so that a start that was killed, or found the disk full, is simply made again.
    """
    _finish(store, file)
    try:
        held = file.read_text(encoding="ascii")
    except FileNotFoundError:
        if store.path is None and any(each.role == Role.ADMIN for each in store.tokens(time.time())):
            return False
        _write_first(store, file)
        return True
    except (OSError, ValueError) as error:
        raise StoreError(f"{file}: {error}, expected the first admin token") from error
    if identify(store, f"Bearer {held.strip()}") is None:
        raise StoreError(
            f"{file}: holds no token of this database, expected the one written at its first start; "
            "remove the file to get a new admin token"
        )
    return False


def _unfinished(file: Path) -> Path:
    return file.with_name(f".{file.name}.new")


def _finish(store: Store, file: Path) -> None:
    """Gives the first token's file its name, where a start was killed after the store had the token."""
    with contextlib.suppress(OSError, ValueError):
        held = _unfinished(file).read_text(encoding="ascii").strip()
        if not file.exists() and identify(store, f"Bearer {held}") is not None:
            _unfinished(file).rename(file)


def _write_first(store: Store, file: Path) -> None:
    """Where the store fails, it may have the token all the same: then the next start's `_finish` decides."""
    token, unfinished = _new(), _unfinished(file)
    try:
        with contextlib.suppress(FileNotFoundError):
            unfinished.unlink()
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as opened:
            opened.write(token + "\n")
            opened.flush()
            os.fsync(handle)
        store.add_token("bootstrap", Role.ADMIN.value, digest(token))
        try:
            unfinished.rename(file)
        except OSError:
            store.revoke_token(digest(token))  # nobody has it, and it must not pass for an admin's
            raise
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise StoreError(f"{file}: {error.strerror}, expected a place for the first admin token") from error
