"""The tagger (DESIGN.md 3.3) on this host: loads its programs, keeps them at the devices, brings them the policy.

Programs are replaced in place, so that no packet goes by without one when a new one comes. What is loaded stays when
hostd ends or dies, and the next hostd takes it over; `remove` takes it away. Where it can't be had, libqclimb.so marks
packets by itself, and the status says why.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from qclimb.checks import UINT64_MAX
from qclimb.layout import U8, U16, U32, U64, Field, Layout
from qclimb.policy import MAX_PRIORITIES, Mode, Policy

from hostlib.hostd import bpf, devices
from hostlib.hostd.bpf import BpfError
from hostlib.hostd.errors import HostdError, PlaceError
from hostlib.hostd.interfaces import Interface, interfaces
from hostlib.hostd.place import Place, write_whole
from hostlib.hostd.scope import NO_DEVICE
from hostlib.hostd.tools import run
from hostlib.hostd.visits import Visits

log = logging.getLogger("qclimb-hostd")

BUILD = Path(__file__).parents[1] / "build"
OBJECT = BUILD / "tagger.bpf.o"
MAPS = ("policy", "flows", "paths", "orders", "counts")
COUNTS = ("tagged", "hidden", "shown")
"""enum tagger_count"""
GROUP = "qclimb"
PATH_BYTES = 32
JUDGED = 16
"""Priorities that the filter knows."""
FILTER, SCOPED = 1, 2
"""enum tagger_flag"""
TAGGER_POLICY = Layout(
    "tagger_policy",
    {
        "threshold_bytes": Field(U64.table(MAX_PRIORITIES)),
        "priorities": Field(U32),
        "flags": Field(U32),
        "dscp": Field(U8.table(MAX_PRIORITIES)),
        "proves": Field(U16.table(JUDGED)),
        "rest_dscp": Field(U8),
        "reserved": Field(U8.table(7)),
    },
)
"""`struct tagger_policy`, which a test holds to it."""
LOOK_S = 10.0
"""Between two looks whether everything is still in its place."""


class TaggerError(HostdError):
    """The tagger can't be loaded, attached or told a policy."""


@dataclass(frozen=True)
class Loaded:
    """What a hostd left in the kernel, as the file `tagger.json` tells the next one."""

    object_sha256: str
    devices: tuple[str, ...]
    programs: str
    """Directory of the pinned programs below `bpf`."""

    @classmethod
    def read(cls, path: Path) -> Loaded | None:
        """None where nothing was left, or the file tells nothing."""
        try:
            found = json.loads(path.read_bytes())
            return cls(str(found["object_sha256"]), tuple(map(str, found["devices"])), str(found["programs"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


class Tagger:
    """The tagger at some devices of this network namespace.

    With `cgroups`, for the kernel mode: at every Ethernet device of this namespace, unless some are named, and of those
    that processes of these cgroups live in.
    """

    def __init__(
        self,
        place: Place,
        devices: tuple[str, ...],
        *,
        use_filter: bool = True,
        object_file: Path = OBJECT,
        cgroups: tuple[Path, ...] = (),
    ) -> None:
        self._place = place
        self._bpf = place.directory / "bpf"
        self._left = place.directory / "tagger.json"
        self._devices = devices
        self._use_filter = use_filter
        self._filters = False
        self._object = object_file
        self._cgroups = cgroups
        self._at: dict[str, str] = {}
        self._visits = Visits()
        self._visited_with = ""
        self._namespaces: set[int] = set()
        self._loaded: Loaded | None = None
        self._told: bytes | None = None
        self._next_look = 0.0
        self.no_device = ""
        """Why no device has the programs, in the kernel mode, which marks by the sockets themselves then."""
        self.status = ""
        self.problem = ""

    def follow(self, policy: Policy | None) -> None:
        """Brings the kernel to where the policy wants it; never raises, `problem` says what is in the way."""
        now = time.monotonic()
        try:
            # flows of PIAS sink: nothing overtakes
            self._filters = self._use_filter and policy is not None and policy.mode is Mode.QCLIMB
            if not self._devices and not self._cgroups:
                if self._next_look == 0.0:
                    remove(self._place)
            elif now >= self._next_look or self._has_new_namespace():
                self._ensure(policy)
                self._tell(policy)
                self._permit()
                self.status = self._describe()
            elif not self.problem:
                self._tell(policy)
            else:
                return
            self.problem = ""
        except Exception as error:
            if not isinstance(error, (HostdError, OSError)):
                log.exception("defect")
            self.problem = str(error) or type(error).__name__
            self.status = f"off: {error}; the library marks packets by itself"
        if now >= self._next_look:
            self._next_look = now + LOOK_S

    def _has_new_namespace(self) -> bool:
        return bool(devices.namespaces_of(self._cgroups).keys() - self._namespaces - {devices.OWN.stat().st_ino})

    def _ensure(self, policy: Policy | None) -> None:
        if os.geteuid() != 0:
            raise TaggerError(
                f"hostd runs as user {os.geteuid()}; expected root, for it loads programs into the kernel"
            )
        try:
            digest = hashlib.sha256(self._object.read_bytes()).hexdigest()
        except OSError as error:
            raise TaggerError(
                f"{self._object}: {error.strerror}; expected what `make -C hostlib tagger` builds (it needs clang)"
            ) from error
        mount_bpf(self._bpf)
        found = Loaded.read(self._left)
        if found is None or found.object_sha256 != digest or not self._is_whole(found):
            found = self._load(digest, policy)
        _detach(each for each in interfaces() if each.name in set(found.devices) - set(self._devices))
        self._attach(found)
        if found.devices != self._devices or self._loaded is None:
            found = Loaded(found.object_sha256, self._devices, found.programs)
            write_whole(self._left, json.dumps(asdict(found)).encode() + b"\n")
        self._loaded = found

    def _is_whole(self, found: Loaded) -> bool:
        pins = [*MAPS, *(f"{found.programs}/{direction}" for direction in devices.DIRECTIONS)]
        return all((self._bpf / pin).exists() for pin in pins)

    def _load(self, digest: str, policy: Policy | None) -> Loaded:
        """Loads the programs beside what is there; maps that fit are taken over, so that flows under way keep their
        rules. A device's first packet finds the policy."""
        programs = f"programs-{digest[:8]}-{os.getpid()}"
        # (no dots: the BPF file system keeps names with one for itself)
        target = self._bpf / programs
        remove_pins(target)
        try:
            bpf.load(self._object, self._bpf, target)
        except BpfError:  # maps of another shape: the kernel mode's programs know the old ones
            forget_maps(self._bpf)
            bpf.load(self._object, self._bpf, target)
        self._told = None
        self._tell(policy)
        found = Loaded(digest, self._devices, programs)
        self._attach(found)
        write_whole(self._left, json.dumps(asdict(found)).encode() + b"\n")
        for old in self._bpf.glob("programs-*"):
            if old.name != programs:
                remove_pins(old)
        return found

    def _attach(self, found: Loaded) -> None:
        links = self._bpf / "links"
        links.mkdir(mode=0o755, exist_ok=True)
        is_served = NO_DEVICE not in self._devices and any(link.name[0].isdigit() for link in links.iterdir())
        try:
            self._at, why = self._at_devices(links, self._bpf / found.programs), "there is no Ethernet device"
        except HostdError as error:
            if not self._cgroups or self._at or is_served:  # devices that have it keep it, also over a new hostd
                raise
            why = str(error)
        self.no_device = "" if self._at else why
        for path in set(bpf.keys(self._bpf / "paths", PATH_BYTES)) if self.no_device else ():
            bpf.drop(self._bpf / "paths", path)  # the library marks there by itself
        for link in links.iterdir():
            namespace = devices.namespace_of_link(link.name)
            waits = self._at and namespace in self._namespaces and namespace not in self._visits.given
            if namespace is not None and not waits and link.name not in self._at:
                link.unlink()

    def _at_devices(self, links: Path, programs: Path) -> dict[str, str]:
        """In this namespace at once, in those of others by turns."""
        found_there = devices.namespaces_of(self._cgroups)
        here = devices.OWN.stat().st_ino
        found_there.pop(here, None)
        self._namespaces = set(found_there)
        if NO_DEVICE in self._devices:
            raise TaggerError("none is asked for")
        own = devices.named_interfaces(self._devices) if self._devices else devices.ethernet_devices()
        kept = devices.keep(links, programs, own)
        if self._visited_with != programs.name:
            self._visits, self._visited_with = Visits(), programs.name

        def keep_there(until_s: float) -> dict[str, str]:
            return devices.keep(links, programs, devices.ethernet_devices(devices.INTERFACES_MOST), until_s)

        self._visits.go(found_there, keep_there)
        for given in self._visits.given.values():
            kept |= given
        return kept

    def _tell(self, policy: Policy | None) -> None:
        told = None if self.no_device else policy
        wanted = tagger_policy(told, filters=self._filters, is_scoped=bool(self._cgroups))
        if wanted != self._told:
            bpf.put(self._bpf / "policy", bytes(4), wanted)
            self._told = wanted

    def _permit(self) -> None:
        """Group `qclimb` may leave rules at its own sockets; nobody else but root may."""
        try:
            group = grp.getgrnam(GROUP).gr_gid
        except KeyError:
            group = None
        for name, mode in (("flows", 0o660), ("paths", 0o640)):
            pin = self._bpf / name
            pin.chmod(mode if group is not None else 0o600)
            os.chown(pin, 0, group if group is not None else 0)

    def _describe(self) -> str:
        if self.no_device:
            return f"at no device: {self.no_device}"
        counted = ", ".join(f"{number} {name}" for name, number in self.counts().items())
        has_group = self._bpf.joinpath("flows").stat().st_mode & 0o070
        who = "" if has_group else f"; there is no group {GROUP}: for root's programs only"
        where = ", ".join(self._devices) or f"{len(self._at) // len(devices.DIRECTIONS)} devices"
        how = " and ".join(sorted(set(self._at.values()) - {""}))
        filters = "on" if self._filters else "off"
        return f"at {where}{how and ' ' + how}, filter {filters}: {counted}{who}{self._visits.describe()}"

    def counts(self) -> dict[str, int]:
        """Packets since the maps were made, by what was done to them.

        Raises:
            BpfError: nothing is loaded.
        """
        return read_counts(self._bpf)


def read_counts(bpf_place: Path) -> dict[str, int]:
    """The tagger's counters of the BPF file system at `bpf_place`. Raises: BpfError."""
    return dict(zip(COUNTS, bpf.count_up(bpf_place / "counts", len(COUNTS)), strict=True))


def tagger_policy(policy: Policy | None, *, filters: bool, is_scoped: bool = False) -> bytes:
    """Without a policy, or in modes that mark nothing, no priority at all."""
    thresholds: list[int] = []
    told: dict[str, object] = {"priorities": 0, "flags": 0, "dscp": b"", "rest_dscp": 0, "reserved": b""}
    proves = [0] * JUDGED
    if policy is not None and policy.mode in (Mode.PIAS, Mode.QCLIMB):
        thresholds = [0, *policy.threshold_bytes]
        told |= {"priorities": policy.priorities, "flags": FILTER * filters | SCOPED * is_scoped}
        told |= {"dscp": bytes(policy.dscp), "rest_dscp": policy.unpinned_dscp or policy.dscp[0]}
        proves = proves_loss(policy)
    told["threshold_bytes"] = thresholds + [UINT64_MAX] * (MAX_PRIORITIES - len(thresholds))
    return TAGGER_POLICY.pack(told | {"proves": proves})


def proves_loss(policy: Policy) -> list[int]:
    """For each priority that the filter knows, a bit for each one that never overtakes it: a packet of one that passes
    bytes of the other proves them lost. Of the same path, and served no earlier (QCLIMB, 3.2.1)."""
    path = [policy.path_of(min(priority, policy.priorities - 1)) for priority in range(JUDGED)]
    return [
        sum(1 << later for later in range(priority, JUDGED) if path[later] == path[priority])
        for priority in range(JUDGED)
    ]


def remove(place: Place) -> bool:
    """Takes away what a hostd left in the kernel; whether there was anything.

    The map that shims look for goes first, so that they mark by themselves before the programs go.

    Raises:
        TaggerError, PlaceError: something refused to go.
    """
    root, left = place.directory / "bpf", place.directory / "tagger.json"
    found = Loaded.read(left)
    for name in ("flows", "paths"):
        (root / name).unlink(missing_ok=True)
    if found is None:
        return False
    remove_pins(root / "links")
    with contextlib.suppress(BpfError):
        # Filters at clsact in other namespaces stay until their devices go: they leave every packet as it is.
        bpf.put(root / "policy", bytes(4), tagger_policy(None, filters=False))
    _detach(each for each in interfaces() if each.name in found.devices or not found.devices)
    forget_maps(root)
    for programs in root.glob("programs-*"):
        remove_pins(programs)
    try:
        left.unlink(missing_ok=True)
    except OSError as error:
        raise PlaceError(f"{left}: {error.strerror}") from error
    return True


def _detach(found: Iterable[Interface]) -> None:
    for interface in found:
        devices.detach(interface)


def forget_maps(root: Path) -> None:
    """Takes the names of all maps, and of the kernel mode's programs, which would go on with maps that nobody finds."""
    for pin in root.iterdir():
        if not pin.is_dir() and "." not in pin.name:  # with a dot: the file system's own
            pin.unlink()
    for programs in root.glob("kernel-*"):
        remove_pins(programs)


def mount_bpf(directory: Path) -> None:
    """A BPF file system of the run directory's own, for `ip netns exec` hides the one at /sys/fs/bpf.

    Raises:
        TaggerError: it can't be mounted.
    """
    directory.mkdir(mode=0o755, exist_ok=True)
    if not os.path.ismount(directory):
        run("mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(directory))
    directory.chmod(0o755)  # by itself it is open to everybody


def remove_pins(directory: Path) -> None:
    """Takes a directory of pins, where it is there."""
    if directory.is_dir():
        for pin in directory.iterdir():
            pin.unlink()
        directory.rmdir()
