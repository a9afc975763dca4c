"""What an engine's port (engine/queues/strict.h) is told by schemes that want nothing special of it."""

from __future__ import annotations

from lab.sim.errors import Settings


def strict_ports(buffer_bytes: int, host_buffer_bytes: int | None = None, priorities: int = 1) -> Settings:
    """One shared buffer, a first-in-first-out queue for each priority, served in order, tail drop; no marks.

    `host_buffer_bytes`: of hosts' own ports, where it differs.
    """
    return {
        "buffer_bytes": buffer_bytes,
        "host_buffer_bytes": buffer_bytes if host_buffer_bytes is None else host_buffer_bytes,
        "priorities": priorities,
        "reserved_bytes": 0,
        "dynamic_alpha_256ths": 0,
        "mark_bytes": 0,
        "host_mark_bytes": 0,
        "uplink_mark_bytes": 0,
        "mark_per_queue": 0,
    }
