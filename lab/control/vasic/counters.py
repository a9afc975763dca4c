"""Queue counters into COUNTERS_DB as syncd writes them: `COUNTERS:<oid>` where something changed."""

from __future__ import annotations

from collections.abc import Mapping

import redis

from lab.control.vasic.machine.sai import Port
from lab.control.vasic.rows import Fields
from lab.fabric.bpf import PortState


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

    def __init__(self, counters_db: redis.Redis) -> None:
        self._db = counters_db
        self._last: dict[str, Fields] = {}

    def write(self, ports: Mapping[str, Port], states: Mapping[str, PortState]) -> int:
        """One round trip, none if nothing changed; answers how many queues were written."""
        pipe = self._db.pipeline(transaction=False)
        written = 0
        for name, port in ports.items():
            for queue, oid in enumerate(port.queues):
                fields = fields_of(states[name], queue)
                if self._last.get(oid) != fields:
                    self._last[oid] = fields
                    pipe.hset(f"COUNTERS:{oid}", mapping=fields)
                    peak: Fields = {"SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": str(states[name].queue[queue].peak_bytes)}
                    pipe.hset(f"USER_WATERMARKS:{oid}", mapping=peak)
                    written += 1
        if written:
            pipe.execute()
        return written

    def write_rules(self, counted: Mapping[str, tuple[int, int]]) -> None:
        """Packets and bytes of ACL rules, by the object id of their counter."""
        pipe = self._db.pipeline(transaction=False)
        for oid, (packets, octets) in counted.items():
            fields: Fields = {
                "SAI_ACL_COUNTER_ATTR_PACKETS": str(packets),
                "SAI_ACL_COUNTER_ATTR_BYTES": str(octets),
            }
            if self._last.get(oid) != fields:
                self._last[oid] = fields
                pipe.hset(f"COUNTERS:{oid}", mapping=fields)
        if len(pipe):
            pipe.execute()
