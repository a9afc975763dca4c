"""The features that a forest may look at, by id, and their values for a record: no numpy, so that hosts can name them.

The order is the contract with forest.h: a feature's id is its index here. All are unsigned integers that become
float32 by round to nearest even.
"""

import ipaddress
import zlib

FEATURES: tuple[str, ...] = (
    "start_us",  # 0: flow's start since the start of its process
    "gap_us",  # 1: since the end of the history's previous flow, capped at 1e9
    "last_size_bytes_1",  # 2..6: sizes of the history's last five flows, latest first, 0 if none
    "last_size_bytes_2",
    "last_size_bytes_3",
    "last_size_bytes_4",
    "last_size_bytes_5",
    "service_port",  # 7: port of the listening side
    "role",  # 8: 1 = this side accepted the connection
    "peer_addr",  # 9: low 24 bits of the IPv4 address; IPv6: of the CRC-32 of its 16 bytes
    "local_addr",  # 10: the same
    "first_write_bytes",  # 11: length of the flow's first write
)
DEFAULT_FEATURE_IDS: tuple[int, ...] = tuple(range(11))
"""The paper's features (QCLIMB section 4); 11 is ours and optional."""


def address_number(address: str) -> int:
    """An address as a feature: the low 24 bits of IPv4 (also v4-mapped), or of the CRC-32 (IEEE) of IPv6's 16 bytes.

    24 bits are what float32 holds exactly; whole addresses would lose their last octet, that is, which host it is.
    """
    parsed = ipaddress.ip_address(address)
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return zlib.crc32(parsed.packed) & 0xFFFFFF
        parsed = parsed.ipv4_mapped
    return int(parsed) & 0xFFFFFF
