"""Was this machine, during this run, an honest network? Checks before, during and after; a verdict, never an exception.

before = guard.Baseline(fabric)
calibration = guard.calibrate(fabric)
...                                              # the run
verdict = guard.judge(fabric, before, calibration)
for line in verdict.lines(): print(line)
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lab.fabric.machine import cpu_now

if TYPE_CHECKING:
    from lab.fabric.fabric import Fabric

PAYLOAD_SHARE = 1448 / 1514
"""TCP payload of a full frame with timestamps, of its wire bytes as the shapers count them (with Ethernet header)."""
CALIBRATION_FLOOR = 0.99
CALIBRATION_BYTES = 3_000_000
IDLE_FLOOR = 0.05
"""Share of CPU time that must have been idle during the run: with none left, delays are the CPU's, not the queues'."""
SETTLE_DEADLINE_S = 3.0
TCP_COUNTERS = (
    *("TCPDSACKRecv", "TCPDSACKOfoRecv", "TCPSACKReorder", "TCPTSReorder", "TCPSpuriousRTOs", "TCPTimeouts"),
    *("TCPBacklogDrop", "TCPRcvQDrop", "ListenDrops"),
)


@dataclass(frozen=True)
class Check:
    """One question and its answer; `ok` None = could not be asked here."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True)
class Verdict:
    """All checks of a run."""

    checks: tuple[Check, ...]

    @property
    def honest(self) -> bool:
        """No check failed."""
        return all(check.ok is not False for check in self.checks)

    def lines(self) -> list[str]:
        """For people."""
        words = {True: "ok", False: "FAILED", None: "not checked"}
        return [f"{check.name}: {words[check.ok]}, {check.text}" for check in self.checks]

    def to_json(self) -> dict[str, object]:
        """For programs."""
        checks = [{"name": check.name, "ok": check.ok, "text": check.text} for check in self.checks]
        return {"honest": self.honest, "checks": checks}


def tcp_counters(fabric: Fabric) -> dict[str, int]:
    """TcpExt and Tcp counters of all hosts together (RetransSegs among them)."""
    total: dict[str, int] = {}
    for host in fabric.hosts:
        with fabric.entered(host):
            for name in ("netstat", "snmp"):
                lines = Path(f"/proc/thread-self/net/{name}").read_text().splitlines()
                for head, row in zip(lines[::2], lines[1::2], strict=True):
                    if head.startswith(("TcpExt:", "Tcp:")):
                        for key, value in zip(head.split()[1:], row.split()[1:], strict=True):
                            total[key] = total.get(key, 0) + int(value)
    return total


def dropped_outside(fabric: Fabric) -> int:
    """Packets lost where none should be: at interfaces (veth backlog), not by a port's buffer."""
    lost = 0
    for node in fabric.topology.nodes:
        if not fabric.topology.ports_of(node):
            continue
        with fabric.entered(node):
            for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
                name, _, numbers = line.partition(":")
                fields = numbers.split()
                if name.strip() not in ("lo", "mgmt"):
                    lost += int(fields[2]) + int(fields[3])
    return lost


def softnet_drops() -> int:
    """Packets that the CPUs' backlogs refused; they are the machine's, not a namespace's."""
    return sum(int(line.split()[1], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())


class Baseline:
    """Counters at the start of a run."""

    def __init__(self, fabric: Fabric) -> None:
        self.cpu = cpu_now()
        self.tcp = tcp_counters(fabric)
        self.drops = softnet_drops() + dropped_outside(fabric)


def calibrate(fabric: Fabric, size_bytes: int = CALIBRATION_BYTES) -> Check:
    """One bulk flow between racks, alone: must come within 1 % of what the port can carry.

    Timed between two of its bytes at the receiver, so that slow start is no part of it.
    """
    hosts = list(fabric.hosts)
    sender, receiver = hosts[0], hosts[-1]
    expected = fabric.topology.host_rate_bps * PAYLOAD_SHARE
    try:
        rate = _receive_rate(fabric, sender, receiver, size_bytes)
    except OSError as error:
        return Check("calibration", False, f"the bulk flow from {sender} to {receiver} failed: {error}")
    share = rate / expected
    got = f"{rate / 1e6:.2f} of {expected / 1e6:.2f} Mb/s ({share:.3f}, floor {CALIBRATION_FLOOR})"
    text = f"{sender} to {receiver} got {got}"
    return Check("calibration", share >= CALIBRATION_FLOOR, text)


def _receive_rate(fabric: Fabric, sender: str, receiver: str, size_bytes: int) -> float:
    """Payload bits per second between the first fifth and the end."""
    with fabric.entered(receiver):
        listener = socket.create_server((fabric.hosts[receiver], 0))
    with fabric.entered(sender):
        out = socket.create_connection((fabric.hosts[receiver], listener.getsockname()[1]), timeout=30)
    with listener, out:
        taken, _ = listener.accept()
        taken.settimeout(30)
        feeder = threading.Thread(target=_feed, args=(out, size_bytes), daemon=True)
        feeder.start()
        with taken:
            got, marked, begun = 0, 0, 0.0
            while got < size_bytes:
                block = taken.recv(16384)
                if not block:
                    break
                got += len(block)
                if not begun and got >= size_bytes // 5:
                    begun, marked = time.perf_counter(), got
            took = time.perf_counter() - begun
        feeder.join(5)
    if got < size_bytes:
        raise OSError(f"only {got} of {size_bytes} bytes came")
    return (got - marked) * 8 / took


def _feed(out: socket.socket, size_bytes: int) -> None:
    with suppress(OSError):  # the receiver will say what is missing
        out.sendall(bytes(size_bytes))


def judge(fabric: Fabric, before: Baseline, calibration: Check | None = None) -> Verdict:
    """The verdict on what happened since `before`; call it when the traffic has ended."""
    checks = [calibration] if calibration else []
    now = cpu_now()
    idle, steal = before.cpu.idle_share(now), before.cpu.steal_share(now)
    text = f"{idle:.0%} of CPU time idle, {steal:.1%} taken by the machine's host (floor {IDLE_FLOOR:.0%} idle)"
    checks.append(Check("idle CPU", idle >= IDLE_FLOOR, text))
    checks.append(_reordering(fabric, before))
    lost = softnet_drops() + dropped_outside(fabric) - before.drops
    checks.append(Check("losses outside the ports' buffers", lost == 0, f"{lost} packets"))
    checks.append(occupancy(fabric))
    return Verdict(tuple(checks))


def _reordering(fabric: Fabric, before: Baseline) -> Check:
    """Counters to show, no bound: a scheme that promotes without draining reorders by itself."""
    now = tcp_counters(fabric)
    grown = {name: now.get(name, 0) - before.tcp.get(name, 0) for name in ("RetransSegs", *TCP_COUNTERS)}
    text = ", ".join(f"{name} {count}" for name, count in grown.items() if count) or "none"
    bad = grown["TCPBacklogDrop"] + grown["TCPRcvQDrop"] + grown["ListenDrops"]
    return Check("TCP counters of the hosts", bad == 0, text)


def occupancy(fabric: Fabric) -> Check:
    """An idle fabric holds no bytes: else packets were lost between the two counting programs."""
    name = "buffers empty when idle"
    shared = fabric.shared_buffer
    if shared is None:
        return Check(name, None, "no shared buffer on this machine")
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    while True:
        held = {
            f"{port.node} {port.name}": shared.state(port.ifindex).occupancy_bytes
            for port in fabric.topology.switch_ports
        }
        left = {port: count for port, count in held.items() if count}
        if not left:
            return Check(name, True, f"0 bytes on {len(held)} ports")
        if time.monotonic() > deadline:
            text = ", ".join(f"{port} holds {count} bytes" for port, count in left.items())
            return Check(name, False, text)
        time.sleep(0.05)
