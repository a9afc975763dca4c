"""Loads the shared buffer program, and reads and writes its tables.

`PortConfig` and `PortState` mirror the C structs of shared_buffer.bpf.c; the tables' value sizes are compared with
them at opening.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from lab.fabric.commands import Tc
from lab.fabric.queues import DSCPS, Buffer, QueueProgram, Shaper
from lab.fabric.topology import FIRST_IFINDEX, QUEUES, FabricError, Port

SOURCE = Path(__file__).with_name("shared_buffer.bpf.c")
MAX_PORTS = 1024
_MAP_LOOKUP, _MAP_UPDATE, _OBJ_GET, _OBJ_GET_INFO = 1, 2, 7, 15
_SYS_BPF = {"x86_64": 321, "aarch64": 280}
_libc = ctypes.CDLL(None, use_errno=True)


class PortConfig(ctypes.Structure):
    """struct port_config."""

    _fields_ = [
        ("total_bytes", ctypes.c_uint32),
        ("reserved_bytes", ctypes.c_uint32 * QUEUES),
        ("dynamic_th", ctypes.c_int32 * QUEUES),
        ("ecn_min_bytes", ctypes.c_uint32 * QUEUES),
        ("ecn_max_bytes", ctypes.c_uint32 * QUEUES),
        ("ecn_percent", ctypes.c_uint32 * QUEUES),
        ("class_of_queue", ctypes.c_uint32 * QUEUES),
        ("queue_of_dscp", ctypes.c_uint8 * DSCPS),
    ]


class QueueState(ctypes.Structure):
    """struct queue_state; counters only grow, `queued_bytes` is what waits now."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "queued_bytes",
            "packets",
            "bytes",
            "dropped_packets",
            "dropped_bytes",
            "marked_packets",
            "peak_bytes",
        )
    ]
    queued_bytes: int
    packets: int
    bytes: int
    dropped_packets: int
    dropped_bytes: int
    marked_packets: int
    peak_bytes: int


class PortState(ctypes.Structure):
    """struct port_state."""

    _fields_ = [
        ("occupancy_bytes", ctypes.c_uint64),
        ("peak_bytes", ctypes.c_uint64),
        ("queue", QueueState * QUEUES),
    ]
    occupancy_bytes: int
    peak_bytes: int
    queue: ctypes.Array[QueueState]


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYS_BPF.get(os.uname().machine)
    if number is None:
        raise FabricError(f"the shared buffer knows no bpf() on {os.uname().machine}, expected x86_64 or aarch64")
    block = ctypes.create_string_buffer(attributes, 128)
    done: int = _libc.syscall(number, command, block, 128)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


class Table:
    """A pinned array of structs, one for each switch port, by interface index."""

    def __init__(self, path: Path, value_type: type[ctypes.Structure]) -> None:
        name = ctypes.create_string_buffer(bytes(path))
        try:
            self._fd = _bpf(_OBJ_GET, _u64(ctypes.addressof(name)) + _u32(0, 0))
        except OSError as refused:
            raise FabricError(f"can't open the BPF table {path}: {refused.strerror}") from None
        self._key = ctypes.c_uint32()
        self._value = value_type()
        info = ctypes.create_string_buffer(128)
        _bpf(_OBJ_GET_INFO, _u32(self._fd, 128) + _u64(ctypes.addressof(info)))
        size = int.from_bytes(info.raw[12:16], "little")
        if size != ctypes.sizeof(value_type):
            raise FabricError(f"BPF table {path.name}: {size} bytes a port, expected {ctypes.sizeof(value_type)}")

    def _access(self, command: int, ifindex: int) -> None:
        self._key.value = ifindex - FIRST_IFINDEX
        where = _u64(ctypes.addressof(self._key)) + _u64(ctypes.addressof(self._value)) + _u64(0)
        _bpf(command, _u32(self._fd, 0) + where)

    def read(self, ifindex: int) -> bytes:
        """The struct of one port, as it is now."""
        self._access(_MAP_LOOKUP, ifindex)
        return bytes(self._value)

    def write(self, ifindex: int, value: ctypes.Structure) -> None:
        """Replaces the struct of one port while packets flow; none is lost by it."""
        ctypes.memmove(ctypes.byref(self._value), ctypes.byref(value), ctypes.sizeof(value))
        self._access(_MAP_UPDATE, ifindex)

    def close(self) -> None:
        """Lets go of the table; it stays pinned."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


class SharedBuffer:
    """Every switch port's buffer of one fabric, by the BPF file system that it is pinned in."""

    def __init__(self, directory: Path) -> None:
        self._configs = Table(directory / "configs", PortConfig)
        self._states = Table(directory / "states", PortState)

    def configure(self, ifindex: int, program: QueueProgram, buffer: Buffer, shaper: Shaper) -> None:
        """What the port does from the next packet on."""
        config = PortConfig()
        config.total_bytes = buffer.total_bytes
        for queue in range(QUEUES):
            config.reserved_bytes[queue] = buffer.reserved_bytes[queue]
            config.dynamic_th[queue] = buffer.dynamic_th[queue]
            if ecn := program.ecn.get(queue):
                config.ecn_min_bytes[queue] = ecn.min_bytes
                config.ecn_max_bytes[queue] = ecn.max_bytes
                config.ecn_percent[queue] = ecn.percent
            config.class_of_queue[queue] = program.class_of_queue(shaper)[queue]
        for dscp, queue in enumerate(program.queue_of_dscp):
            config.queue_of_dscp[dscp] = queue
        self._configs.write(ifindex, config)

    def configured(self, ifindex: int) -> PortConfig:
        """What the port does now."""
        return PortConfig.from_buffer_copy(self._configs.read(ifindex))

    def state(self, ifindex: int) -> PortState:
        """Occupancy and counters of a port."""
        return PortState.from_buffer_copy(self._states.read(ifindex))


def compile_and_load(directory: Path, build: Path) -> None:
    """Compiles the program into `build` and pins it and its tables in the BPF file system at `directory`.

    Raises:
        FabricError: a tool is missing, or the kernel refused the program; says why.
    """
    compiled = build / "shared_buffer.o"
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    options = ["-O2", "-g", "-target", "bpf", include, "-c", str(SOURCE), "-o", str(compiled)]
    load = ["prog", "loadall", str(compiled), str(directory / "programs"), "type", "classifier", "pinmaps"]
    (directory / "programs").mkdir()
    for argv in (["clang", *options], ["bpftool", *load, str(directory)]):
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        except FileNotFoundError:
            raise FabricError(f"`{argv[0]}` is missing") from None
        if done.returncode:
            raise FabricError(f"`{argv[0]}` failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


def attach(directory: Path, port: Port, netns: str, peer_netns: str) -> Iterator[Tc]:
    """Counts a switch port's packets in at its egress, and out at the other end of the cable."""
    programs = directory / "programs"
    yield Tc(netns, f"filter add dev {port.name} egress pref 100 protocol all bpf da object-pinned {programs}/enqueue")
    yield Tc(
        peer_netns,
        f"filter add dev {port.peer_name} ingress pref 100 protocol all bpf da object-pinned {programs}/dequeue",
    )
