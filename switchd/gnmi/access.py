"""Who may do what: the certificate's common name, looked up in CONFIG_DB's GNMI_CLIENT_CERT, as sonic-gnmi does.

A row gives reading; the role gnmi_config_db_readwrite gives writing; no row gives nothing, not even Capabilities, and
neither does a row with the role gnmi_noaccess or gnmi_config_db_noaccess, whatever else it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from cryptography import x509
from cryptography.x509.oid import NameOID
from qclimb.checks import shown
from qclimb.text import EXPECTED, UNPRINTABLE, replace_unprintable

from switchd.db import Database
from switchd.gnmi.errors import PERMISSION_DENIED, UNAUTHENTICATED, RpcError

TABLE = "GNMI_CLIENT_CERT"
WRITE_ROLE = "gnmi_config_db_readwrite"
NO_ACCESS = frozenset({"gnmi_noaccess", "gnmi_config_db_noaccess"})


@dataclass(frozen=True)
class Client:
    """Who is calling. `is_plain`: over plain loopback, without a certificate."""

    name: str
    may_write: bool
    is_plain: bool = False

    def at(self, peer: str) -> str:
        """Its name and address for people, of what gRPC calls its peer: `ipv4:198.18.0.5:40000`."""
        address = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
        text = f"{self.name} at {address}" if address else self.name
        return replace_unprintable(text[:200])  # a certificate may say anything

    @property
    def key(self) -> tuple[bool, str]:
        """Whose places it takes: no certificate's name takes those of plain loopback."""
        return self.is_plain, self.name

    def check_write(self) -> None:
        """Raises RpcError PERMISSION_DENIED without the right to write."""
        if not self.may_write:
            raise RpcError(
                PERMISSION_DENIED, f"{self.name} may read only; writing needs role@ {WRITE_ROLE} in {TABLE}|{self.name}"
            )


@lru_cache(256)
def common_names(certificate: bytes) -> tuple[bytes, ...]:
    """All common names of a certificate (PEM): gRPC tells the first of them, Go's library the last. None of what can't
    be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ()
    return tuple(str(one.value).encode() for one in found)


def client_of(names: Sequence[bytes] | None, db: Database) -> Client:
    """The caller of an RPC by the common names of its certificate; None: on a plain loopback, where everybody may all.

    Raises RpcError, or DatabaseLost.
    """
    if names is None:
        return Client("loopback", True, is_plain=True)
    if len(names) != 1:
        raise RpcError(UNAUTHENTICATED, f"the client certificate has {len(names)} common names, expected one")
    name = names[0].decode("utf-8", "replace")
    if UNPRINTABLE.search(name) or not name:
        raise RpcError(UNAUTHENTICATED, f"the client certificate's common name is {shown(name)}, expected {EXPECTED}")
    return known(name, db)


def known(name: str, db: Database) -> Client:
    """The client of this common name. Raises RpcError where it has no right here, or DatabaseLost.

    A row that is missing while `config reload` empties and loads CONFIG_DB takes no right away.
    """
    row = db.get_whole_entry(TABLE, name)
    if not row:
        raise RpcError(UNAUTHENTICATED, f"no row {TABLE}|{name} in CONFIG_DB")
    roles = {role.strip() for role in row.get("role@", row.get("role", "")).split(",")}
    if denied := sorted(roles & NO_ACCESS):
        raise RpcError(PERMISSION_DENIED, f"{name} has no access: role@ {denied[0]} in {TABLE}|{name}")
    return Client(name, WRITE_ROLE in roles)
