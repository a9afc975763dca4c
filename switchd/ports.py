"""Which ports are meant, and which queues and priority groups of a port the platform gave a buffer; purely."""

import re
from collections.abc import Mapping
from functools import lru_cache

from switchd.rows import Row

RowsNow = Mapping[str, Mapping[str, Row]]

_INTERNAL = re.compile(r"Ethernet-(Rec|IB)\d+")


def is_front_panel(name: str, row: Mapping[str, str]) -> bool:
    """Whether a row of PORT is a port that a cable goes into: role Ext, or none told.

    The others (Int, Inb, Rec, Dpc) join parts of the switch itself (sonic-port.yang).
    """
    return row.get("role", "Ext") == "Ext" and not _INTERNAL.fullmatch(name)


def ports_meant(named: tuple[str, ...], rows: RowsNow) -> list[str]:
    """The ports that an intent names, or every front-panel port where it names none."""
    known = rows.get("PORT", {})
    every = [name for name, row in known.items() if is_front_panel(name, row)]
    return sorted(named or every, key=lambda port: (len(port), port))


@lru_cache(1024)
def numbers_in(span: str) -> frozenset[int] | None:
    """The numbers of "3" or "3-5"; None where it is neither."""
    found = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", span)
    return frozenset(range(int(found[1]), int(found[2] or found[1]) + 1)) if found else None


def range_over(key: str, entries: Mapping[str, Row]) -> str | None:
    """The row that covers the queue of a single row of one port, and others; None where there is none."""
    port, _, span = key.partition("|")
    if len(span) != 1 or not span.isdigit():
        return None
    queue = int(span)
    spans = ((low, high) for low in range(queue + 1) for high in range(max(queue, low + 1), 10))
    return next((one for low, high in spans if (one := f"{port}|{low}-{high}") in entries), None)


def keys_by_port(entries: Mapping[str, Row]) -> dict[str, list[str]]:
    """The keys of a table by each port that they name; found once for all ports, as there are many of both."""
    found: dict[str, list[str]] = {}
    for key in entries:
        for port in key.partition("|")[0].split(","):
            found.setdefault(port, []).append(key)
    return found


def buffered(port: str, keys: Mapping[str, list[str]]) -> frozenset[int] | None:
    """The queues or priority groups of a port that have a buffer, by the keys of BUFFER_QUEUE or BUFFER_PG.

    None where the table has no row for any port: this platform's buffers are not told there.
    """
    spans = [key.partition("|")[2] for key in keys.get(port, ())]
    return frozenset().union(*(numbers_in(span) or frozenset() for span in spans)) if keys else None
