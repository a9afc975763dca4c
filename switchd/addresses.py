"""Where a switch's own services listen: its management interface and loopback, not its front-panel ports."""

import fcntl
import socket
import struct
from ipaddress import ip_address

from switchd.db import Database

LOOPBACK = "127.0.0.1"
MANAGEMENT = "eth0"
TABLE = "MGMT_INTERFACE"
SIOCGIFADDR = 0x8915
"""netdevice(7)"""


def management(db: Database) -> list[str]:
    """Addresses as gRPC takes them: loopback, and those of MGMT_INTERFACE, or what eth0 got by DHCP (IPv4).

    Raises DatabaseLost where CONFIG_DB is not whole.
    """
    found = [key.rpartition("|")[2].partition("/")[0] for key in db.get_whole_tables([TABLE])[TABLE] if "|" in key]
    good = [text for text in found if _is_address(text)] or _of_interface(MANAGEMENT)
    return [LOOPBACK, *(f"[{text}]" if ":" in text else text for text in sorted(set(good) - {LOOPBACK}))]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _of_interface(name: str) -> list[str]:
    """The IPv4 address of an interface; none where it has none, or is not there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]
