"""Who may do what: the certificate's common name, looked up in CONFIG_DB's GNMI_CLIENT_CERT, as sonic-gnmi does.

A row gives reading; the role gnmi_config_db_readwrite gives writing; no row gives nothing, not even Capabilities, and
neither does a row with the role gnmi_noaccess or gnmi_config_db_noaccess, whatever else it has.
"""

import time
from contextlib import suppress
from dataclasses import dataclass

import grpc

from switchd.db import Database, DatabaseLost
from switchd.gnmi.errors import PERMISSION_DENIED, UNAUTHENTICATED, RpcError

TABLE = "GNMI_CLIENT_CERT"
KNOWN_FOR_S = 2.0
"""how long a stream goes on before its client's row is read again"""
WRITE_ROLE = "gnmi_config_db_readwrite"
NO_ACCESS = frozenset({"gnmi_noaccess", "gnmi_config_db_noaccess"})


@dataclass(frozen=True)
class Client:
    """Who is calling."""

    name: str
    may_write: bool

    def check_write(self) -> None:
        """Raises RpcError PERMISSION_DENIED without the right to write."""
        if not self.may_write:
            raise RpcError(
                PERMISSION_DENIED, f"{self.name} may read only; writing needs role@ {WRITE_ROLE} in {TABLE}|{self.name}"
            )


def client_of(context: grpc.ServicerContext, db: Database, plain: bool) -> Client:
    """The caller of an RPC; everybody may all on a plain loopback. Raises RpcError, or DatabaseLost."""
    if plain:
        return Client("loopback", True)
    names = context.auth_context().get("x509_common_name", [])
    if len(names) != 1:
        raise RpcError(UNAUTHENTICATED, f"the client certificate has {len(names)} common names, expected one")
    name = names[0].decode("utf-8", "replace")
    row = db.get_entry(TABLE, name)
    if not row:
        raise RpcError(UNAUTHENTICATED, f"no row {TABLE}|{name} in CONFIG_DB")
    roles = {role.strip() for role in row.get("role@", row.get("role", "")).split(",")}
    if denied := sorted(roles & NO_ACCESS):
        raise RpcError(PERMISSION_DENIED, f"{name} has no access: role@ {denied[0]} in {TABLE}|{name}")
    return Client(name, WRITE_ROLE in roles)


class Known:
    """The client of one stream, who was known when it began."""

    def __init__(self, db: Database, plain: bool) -> None:
        self._db, self._plain = db, plain
        self._read_at_s = time.monotonic()

    def check(self, context: grpc.ServicerContext) -> None:
        """Raises RpcError where the client may no longer read; nobody is sent away because redis is."""
        if self._plain or time.monotonic() < self._read_at_s + KNOWN_FOR_S:
            return
        self._read_at_s = time.monotonic()
        with suppress(DatabaseLost):
            client_of(context, self._db, self._plain)
