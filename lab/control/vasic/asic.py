"""Port programs into this namespace's kernel: the BPF tables where they are, tc in any case."""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import subprocess
from pathlib import Path

from lab.control.vasic.program import PortProgram
from lab.fabric.bpf import PortState, SharedBuffer
from lab.fabric.commands import Tc, run_all
from lab.fabric.queues import QueueProgram, Shaper, leaf_queues, reshape, u32_filters
from lab.fabric.topology import QUEUES, FabricError

SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40


class Asic:
    """The ports of one switch; remembers what each does now, and changes only what differs."""

    def __init__(self, shaper: Shaper, bpf_directory: Path | None) -> None:
        self._shaper = shaper
        self._buffer = SharedBuffer(bpf_directory) if bpf_directory else None
        self._control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._now: dict[str, PortProgram] = {}
        self._pref: dict[str, int] = {}

    def apply(self, programs: dict[str, PortProgram]) -> list[str]:
        """Programs the ports that differ; no packet is lost by it. Answers their names.

        Raises:
            FabricError: the kernel refused, or a port of the rows is not there.
        """
        changed = [port for port, program in programs.items() if self._now.get(port) != program]
        lines: list[str] = []
        for port in changed:
            lines += self._lines(port, programs[port])
        run_all([Tc("", line) for line in lines])
        for port in changed:
            program = programs[port]
            if self._buffer is not None:
                self._buffer.configure(_ifindex(port), program.queues, program.buffer, self._shaper)
            self._now[port] = program
        return changed

    def _lines(self, port: str, program: PortProgram) -> list[str]:
        before = self._now.get(port)
        lines: list[str] = []
        if before is None or before.queues.services != program.queues.services:
            lines += reshape(port, program.speed_bps, program.queues, self._shaper)
        if self._buffer is None:
            lines += self._filters(port, program.queues, before)
            share = program.buffer.total_bytes // QUEUES
            for parent, handle in leaf_queues(self._shaper):
                lines.append(f"qdisc change dev {port} parent {parent} handle {handle + 8:x}: bfifo limit {share}")
        return lines

    def _filters(self, port: str, program: QueueProgram, before: PortProgram | None) -> list[str]:
        """New filters beside the old ones, then the old ones go: each packet finds one set complete."""
        old = self._pref.get(port, 0)
        new = 1 if old == 2 else 2
        self._pref[port] = new
        lines = list(u32_filters(port, program, self._shaper, new))
        if before is not None and any(before.queues.queue_of_dscp):
            parent = "1:" if self._shaper == "htb" else "10:"
            lines.append(f"filter del dev {port} parent {parent} pref {old}")
        return lines

    def is_there(self, port: str) -> bool:
        """Whether the kernel has the port: a cable's end is gone with the namespace at the other end."""
        try:
            socket.if_nametoindex(port)
        except OSError:
            self._now.pop(port, None)
            return False
        return True

    def is_up(self, port: str) -> bool:
        """Whether the kernel has the port's link up."""
        request = struct.pack("16sh14x", port.encode()[:15], 0)
        try:
            flags = struct.unpack("16sh14x", fcntl.ioctl(self._control.fileno(), SIOCGIFFLAGS, request))[1]
        except OSError:
            return False
        return bool(flags & IFF_RUNNING)

    def states(self, ports: list[str]) -> dict[str, PortState]:
        """Counters of the ports by name."""
        if self._buffer is not None:
            return {port: self._buffer.state(_ifindex(port)) for port in ports}
        return {port: self._from_tc(port) for port in ports}

    def _from_tc(self, port: str) -> PortState:
        """Without BPF: from the leaf queues' own counts."""
        text = subprocess.run(["tc", "-s", "-j", "qdisc", "show", "dev", port], capture_output=True, check=True).stdout
        found = {entry["parent"]: entry for entry in json.loads(text) if "parent" in entry}
        state = PortState()
        for queue, (parent, _) in enumerate(leaf_queues(self._shaper)):
            counted, entry = state.queue[queue], found.get(parent, {})
            counted.packets, counted.bytes = entry.get("packets", 0), entry.get("bytes", 0)
            counted.dropped_packets, counted.queued_bytes = entry.get("drops", 0), entry.get("backlog", 0)
            state.occupancy_bytes += counted.queued_bytes
        return state


def _ifindex(port: str) -> int:
    try:
        return socket.if_nametoindex(port)
    except OSError:
        raise FabricError(f"PORT|{port}: this switch has no such port") from None
