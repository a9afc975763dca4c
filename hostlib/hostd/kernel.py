"""The kernel mode (DESIGN.md 3.3) on this host: finds flows of programs that know nothing of qclimb, for the tagger.

Its programs see the sockets of the opted-in cgroups open, close and write, and leave at each socket the rule that the
tagger's egress marks packets by. Maps and programs are pinned by name: what is loaded goes on when hostd ends or dies,
and the next hostd, of this version or another, takes it over.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from qclimb.errors import QclimbError
from qclimb.hostfile import POLICY, decode_forest, encode_policy
from qclimb.lengthfile import entries_in_force
from qclimb.policy import Mode, Policy
from qclimb.record_rows import ROW, Rows

from hostlib.hostd import bpf, devices
from hostlib.hostd.bpf import BpfError
from hostlib.hostd.errors import HostdError
from hostlib.hostd.forecast import kernel_forest
from hostlib.hostd.lengths import kernels_ports
from hostlib.hostd.place import Place
from hostlib.hostd.ring import Ring
from hostlib.hostd.scope import Scope
from hostlib.hostd.tagger import BUILD, LOOK_S, Tagger, TaggerError, remove_pins
from hostlib.hostd.unmarked import unmarked

log = logging.getLogger("qclimb-hostd")

SCOPE = "scope.bpf.o"
WALKERS = ("restore.bpf.o", "unmarked.bpf.o")
"""Iterators over sockets: without them a quiet socket keeps its DSCP as the mode goes, and status knows less."""
WRITES = {"write.bpf.o": "by_tracepoint", "write_fentry.bpf.o": "by_fentry"}
"""Objects by which writes are seen, and the program of each; the first that this kernel has serves."""
SEEN = {
    "by_tracepoint": "by tracepoint",
    "by_fentry": "by fentry (this kernel has no tracepoint tcp_sendmsg_locked: Linux 6.16)",
}
MAPS = (
    *("streams", "histories", "host_policy", "records", "kernel_counts", "ports", "forests", "tasks"),
    *("lengths", "length_ports", "paces"),
)
COUNTS = ("flows", "dropped", "sockets")
"""enum kernel_count"""
ANY_PORT = 0
FIRST_POLICY = Policy(generation=0, mode=Mode.OBSERVE, threshold_bytes=(), dscp=(0,), slack_bytes=0)
"""Before the orchestrator gave one, which it makes of what hosts record."""
RECORDS_BYTES = 4 << 20
LENGTH_KEY_BYTES = 20
LIFT_S = 0.3
"""Longer than a connection that is held back takes for a round trip."""


class KernelMode:
    """Keeps the programs at the cgroups of `scope`, once the tagger is there."""

    def __init__(self, place: Place, scope: Scope, tagger: Tagger, *, build: Path = BUILD) -> None:
        self._place = place
        self._bpf = place.directory / "bpf"
        self._scope = scope
        self._tagger = tagger
        self._build = build
        self.is_wanted = bool(scope.cgroups)
        self._told: bytes | None = None
        self._next_look = 0.0
        self._joined: dict[Path, int] = {}
        self._by = ""
        self._by_sockets = False
        self._forest = -1  # not known
        self._lengths: bytes | None = None
        self._lengths_said = ""
        self._sets_windows = False
        self._ring: Ring | None = None
        self._ring_lock = threading.Lock()
        """Another thread reads."""
        self.unmarked: tuple[str, ...] = ()
        """Where sockets mark: which don't, and why."""
        self.status = ""
        self.problem = ""

    @property
    def cgroups(self) -> tuple[str, ...]:
        """Whose programs are served now."""
        return () if self.problem else tuple(map(str, self._joined))

    def read(self) -> tuple[Rows, NDArray[np.uint64]]:
        """The records of flows that ended since the last call, and how many flows each stands for. Raises: BpfError."""
        with self._ring_lock:
            if self._ring is None:
                return np.empty(0, dtype=ROW), np.empty(0, dtype=np.uint64)
            return self._ring.read()

    def follow(self, policy: Policy | None) -> None:
        """Brings the kernel to where scope and policy want it; never raises, `problem` says what is in the way."""
        if not self._scope.cgroups:
            self._leave()
            return
        now = time.monotonic()
        try:
            if self._tagger.problem:
                raise TaggerError(f"nothing marks packets: {self._tagger.problem}")
            is_switched = self._by_sockets != bool(self._tagger.no_device)
            if now >= self._next_look or self.problem or is_switched or self._there() != self._joined:
                self._ensure(policy)
                self._next_look = now + LOOK_S
            self._tell(policy)
            self.status, self.problem = self._describe(), ""
        except Exception as error:
            if not isinstance(error, (QclimbError, OSError)):
                log.exception("defect")
            self.problem, self.unmarked = str(error) or type(error).__name__, ()
            self.status = f"off: {error}"

    def close(self) -> None:
        """Lets go of the records' buffer; everything stays in the kernel."""
        with self._ring_lock:
            if self._ring is not None:
                self._ring.close()
                self._ring = None

    def _leave(self) -> None:
        if self._next_look == 0.0:
            self._next_look = 1.0
            remove(self._bpf)

    def _there(self) -> dict[Path, int]:
        """The cgroups that exist now, with their numbers: a service that starts again has another one."""
        found = {}
        for cgroup in self._scope.cgroups:
            with suppress(OSError):
                found[cgroup] = cgroup.stat().st_ino
        return found

    def _ensure(self, policy: Policy | None) -> None:
        """Who hears of sockets knows by then what to do with them. Over to sockets, where flows only sink, the policy
        goes before who marks by it, and back after it."""
        joined = self._there()
        if not joined:
            missing = ", ".join(map(str, self._scope.cgroups))
            raise BpfError(f"cgroup {missing}: not there; expected a directory of cgroup v2")
        programs, links = self._bpf / f"kernel-{self._digest()}", self._bpf / "links"
        heard = self._policy_map() if any(links.glob("cgroup-*")) else 0
        self._by = self._loaded(programs) or self._load(programs)
        self._by_sockets = bool(self._tagger.no_device)
        self._open_scope()
        if self._by_sockets or self._policy_map() != heard:
            self._tell(policy)
        write = links / f"write-{programs.name}"
        if not write.exists():
            bpf.trace(programs / self._by, write)
        wanted = {write.name}
        for cgroup, number in joined.items():
            link = links / f"cgroup-{number}"
            bpf.join_cgroup(programs / ("scope_marks" if self._by_sockets else "scope"), cgroup, link)
            wanted.add(link.name)
        for link in links.iterdir():
            if link.name.startswith(("write-", "cgroup-")) and link.name not in wanted:
                link.unlink()
        for old in self._bpf.glob("kernel-*"):
            if old != programs:
                remove_pins(old)
        self._joined = joined
        self.unmarked = unmarked(programs / "unmarked", joined) if self._by_sockets else ()
        with self._ring_lock:
            self._ring = self._ring or Ring(self._bpf / "records", RECORDS_BYTES)

    def _policy_map(self) -> int:
        """Which map it is that programs loaded now read; 0: none."""
        pin = self._bpf / "host_policy"
        return pin.stat().st_ino if pin.exists() else 0

    def _loaded(self, programs: Path) -> str:
        """Which program sees writes, of those pinned there with their maps; "" where something is missing."""
        if not all(pin.exists() for pin in (programs / "scope", *(self._bpf / name for name in MAPS))):
            return ""
        return next((name for name in WRITES.values() if (programs / name).exists()), "")

    def _digest(self) -> str:
        """Of everything that is loaded together."""
        found = hashlib.sha256()
        for name in ("tagger.bpf.o", SCOPE, *WALKERS, *WRITES):
            try:
                found.update((self._build / name).read_bytes())
            except OSError as error:
                raise TaggerError(
                    f"{self._build / name}: {error.strerror}; expected what `make -C hostlib tagger` builds"
                ) from error
        return found.hexdigest()[:8]

    def _load(self, programs: Path) -> str:
        if not bpf.has_loop():
            raise BpfError("this kernel has no bpf_loop; expected Linux 5.17 or later")
        try:
            bpf.load(self._build / SCOPE, self._bpf, programs)
        except BpfError:  # maps of another version
            for name in MAPS:
                (self._bpf / name).unlink(missing_ok=True)
            bpf.load(self._build / SCOPE, self._bpf, programs)
        self._told = self._lengths = None
        self._forest = -1
        self.close()
        for walker in WALKERS:
            with suppress(BpfError):
                bpf.load(self._build / walker, self._bpf, programs)
        refused = []
        for file, program in WRITES.items():
            try:
                bpf.load(self._build / file, self._bpf, programs)
                return program
            except BpfError as error:
                refused.append(str(error))
        raise BpfError(f"this kernel does not show who writes: {'; '.join(refused)}")

    def _open_scope(self) -> None:
        _set_keys(self._bpf / "ports", 4, (port.to_bytes(4, "little") for port in self._scope.ports or (ANY_PORT,)))

    def _tell(self, policy: Policy | None) -> None:
        """The policy, and what flows are judged by beside it."""
        if self._by_sockets and policy is not None and policy.mode is Mode.QCLIMB:
            policy = replace(policy, mode=Mode.PIAS)  # nothing cuts SACKs: who climbs would be sent again
        policy = policy or FIRST_POLICY
        wanted = encode_policy(policy)
        if wanted != self._told:
            self._bring_forest(policy)
            bpf.put(self._bpf / "host_policy", bytes(4), wanted)
            self._told = wanted
            self._sets_windows = policy.optax and policy.mode in (Mode.PIAS, Mode.QCLIMB)
        self._bring_lengths()

    def _bring_forest(self, policy: Policy) -> None:
        """The model that the policy names, before the policy itself; a flow meanwhile has the one before, or none."""
        generation = policy.model_generation
        if generation == self._forest:
            return
        bpf.drop(self._bpf / "forests", bytes(4))
        self._forest = 0
        if generation:
            try:
                forest = kernel_forest(decode_forest(self._place.model.read_bytes()))
            except (OSError, QclimbError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                raise TaggerError(f"{self._place.model}: {reason}; expected model {generation}") from error
            bpf.put_map(self._bpf / "forests", forest)
            self._forest = generation

    def _bring_lengths(self) -> None:
        """The rules that libraries read, of services where one is in force; none where the file is missing, and those
        before where it is damaged."""
        try:
            content = self._place.lengths.read_bytes()
        except OSError:
            content = b""
        if content == self._lengths:
            return
        try:
            found = {length_key(entry): entry for entry in entries_in_force(content)} if content else {}
        except QclimbError as error:
            self._lengths, self._lengths_said = content, f"; {self._place.lengths}: {error}"
            return
        ports = kernels_ports()
        bpf.put(self._bpf / "length_ports", bytes(4), struct.pack("<HH", ports.first, ports.last))
        pin = self._bpf / "lengths"
        for key in set(bpf.keys(pin, LENGTH_KEY_BYTES)) - found.keys():
            bpf.drop(pin, key)
        for key, entry in found.items():
            bpf.put(pin, key, entry)
        self._lengths, self._lengths_said = content, f"; lengths of services: {len(found)}" if found else ""

    def _describe(self) -> str:
        counted = ", ".join(f"{number} {name}" for name, number in self.counts().items())
        ports = f", ports {', '.join(map(str, self._scope.ports))}" if self._scope.ports else ""
        model = f"; model {self._forest}" if self._forest > 0 else ""
        windows = "; receive windows by task" if self._sets_windows else ""
        missing = ", ".join(str(cgroup) for cgroup in self._scope.cgroups if cgroup not in self._joined)
        where = ", ".join(map(str, self._joined)) + (f" (not there: {missing})" if missing else "")
        where += f"{ports}{model}{self._lengths_said}{windows}"
        if self._by_sockets:
            where += f"; marks by sockets, qclimb as pias (at no device: {self._tagger.no_device})"
        return f"{where}; writes {SEEN[self._by]}: {counted}"

    def counts(self) -> dict[str, int]:
        """Since the maps were made. Raises: BpfError: nothing is loaded."""
        return dict(zip(COUNTS, bpf.count_up(self._bpf / "kernel_counts", len(COUNTS)), strict=True))


def _set_keys(pin: Path, key_bytes: int, keys: Iterable[bytes]) -> None:
    """Has a map know these keys and no others."""
    wanted, there = set(keys), set(bpf.keys(pin, key_bytes))
    for key in wanted - there:
        bpf.put(pin, key, bytes(4))
    for key in there - wanted:
        bpf.drop(pin, key)


def length_key(entry: bytes) -> bytes:
    """`struct length_key` of announced.h: as an entry begins, without its state."""
    return entry[: LENGTH_KEY_BYTES - 1] + b"\0"


def remove(root: Path) -> bool:
    """Takes what a hostd left of the kernel mode in the BPF file system at `root`; whether there was anything.

    Receive windows are given back first: what still comes in on a connection has it send ACKs, and the first of them
    lifts its window.
    """
    programs = list(root.glob("kernel-*"))
    if (root / "host_policy").exists():
        bpf.put(root / "host_policy", bytes(4), bytes(POLICY.size))
        time.sleep(LIFT_S)
    for program in root.glob("kernel-*/restore"):
        for namespace in devices.all_namespaces().values():
            with suppress(HostdError, OSError):  # its last process ended
                devices.within(namespace, partial(bpf.walk, program))
    for link in root.glob("links/[wc]*-*"):
        link.unlink()
    for name in MAPS:
        (root / name).unlink(missing_ok=True)
    for old in programs:
        remove_pins(old)
    return bool(programs)
