"""Queue counters into COUNTERS_DB as syncd writes them: names to object ids once, then `COUNTERS:<oid>` on change."""

from __future__ import annotations

from collections.abc import Iterable

import redis

from lab.fabric.bpf import PortState
from lab.fabric.topology import QUEUES

Fields = dict[bytes | bytearray | memoryview | str | int | float, bytes | bytearray | memoryview | str | int | float]
"""What redis-py takes for a hash; ours are strings."""


def queue_oid(port_number: int, queue: int) -> str:
    """A made-up object id in the shape of SAI's queues (type 0x15)."""
    return f"oid:0x15{port_number << 8 | queue:012x}"


def port_oid(port_number: int) -> str:
    """A made-up object id in the shape of SAI's ports (type 0x1)."""
    return f"oid:0x1{port_number:012x}"


def write_names(counters_db: redis.Redis, ports: Iterable[str]) -> None:
    """The maps by which `show queue counters` and others find the counters."""
    pipe = counters_db.pipeline(transaction=True)
    for number, port in enumerate(ports):
        pipe.hset("COUNTERS_PORT_NAME_MAP", port, port_oid(number))
        for queue in range(QUEUES):
            oid = queue_oid(number, queue)
            pipe.hset("COUNTERS_QUEUE_NAME_MAP", f"{port}:{queue}", oid)
            pipe.hset("COUNTERS_QUEUE_TYPE_MAP", oid, "SAI_QUEUE_TYPE_UNICAST")
            pipe.hset("COUNTERS_QUEUE_INDEX_MAP", oid, str(queue))
            pipe.hset("COUNTERS_QUEUE_PORT_MAP", oid, port_oid(number))
    pipe.execute()


def fields_of(state: PortState, queue: int) -> Fields:
    """One queue's counters by SAI's names."""
    counted = state.queue[queue]
    return {
        "SAI_QUEUE_STAT_PACKETS": str(counted.packets),
        "SAI_QUEUE_STAT_BYTES": str(counted.bytes),
        "SAI_QUEUE_STAT_DROPPED_PACKETS": str(counted.dropped_packets),
        "SAI_QUEUE_STAT_DROPPED_BYTES": str(counted.dropped_bytes),
        "SAI_QUEUE_STAT_CURR_OCCUPANCY_BYTES": str(counted.queued_bytes),
        "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": str(counted.marked_packets),
    }


class Counters:
    """Writes what changed since the last time."""

    def __init__(self, counters_db: redis.Redis, ports: list[str]) -> None:
        self._db = counters_db
        self._ports = ports
        self._last: dict[tuple[str, int], Fields] = {}
        write_names(counters_db, ports)

    def write(self, states: dict[str, PortState]) -> int:
        """One round trip, none if nothing changed; answers how many queues were written."""
        pipe = self._db.pipeline(transaction=False)
        written = 0
        for number, port in enumerate(self._ports):
            for queue in range(QUEUES):
                fields = fields_of(states[port], queue)
                if self._last.get((port, queue)) != fields:
                    self._last[port, queue] = fields
                    pipe.hset(f"COUNTERS:{queue_oid(number, queue)}", mapping=fields)
                    peak: Fields = {"SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": str(states[port].queue[queue].peak_bytes)}
                    pipe.hset(f"USER_WATERMARKS:{queue_oid(number, queue)}", mapping=peak)
                    written += 1
        if written:
            pipe.execute()
        return written
