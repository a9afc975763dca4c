"""The tagger (DESIGN.md 3.3) on this host: loads its programs, keeps them at the devices, brings them the policy.

`bpftool` loads and pins, `tc` attaches; both replace in place, so that no packet goes by without a program when a new
one comes. What is loaded stays when hostd ends or dies, and the next hostd takes it over; `remove` takes it away. Where
it can't be had, libqclimb.so marks packets by itself, and the status says why.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import json
import os
import shutil
import struct
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qclimb.policy import Mode, Policy

from hostlib.hostd.errors import HostdError, PlaceError
from hostlib.hostd.place import Place, write_whole

OBJECT = Path(__file__).parents[1] / "build" / "tagger.bpf.o"
MAPS = ("policy", "flows", "paths", "arrivals", "silences", "counts")
COUNTS = ("tagged", "hidden", "lost", "held")
"""enum tagger_count"""
DIRECTIONS = ("egress", "ingress")
GROUP = "qclimb"
PREFERENCE = "4747"
"""Of our filters at a device's clsact: whatever else is there keeps its place."""
MAX_PRIORITIES = 64
UNUSED = (1 << 64) - 1
NOT_OURS = 255
FILTER = 1
TIMEOUT_S = 10.0
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
    """The tagger at some devices of this network namespace."""

    def __init__(
        self, place: Place, devices: tuple[str, ...], *, use_filter: bool = True, object_file: Path = OBJECT
    ) -> None:
        self._place = place
        self._bpf = place.directory / "bpf"
        self._left = place.directory / "tagger.json"
        self._devices = devices
        self._use_filter = use_filter
        self._object = object_file
        self._loaded: Loaded | None = None
        self._told: bytes | None = None
        self._next_look = 0.0
        self.status = ""
        self.problem = ""

    def follow(self, policy: Policy | None) -> None:
        """Brings the kernel to where the policy wants it; never raises, `problem` says what is in the way."""
        now = time.monotonic()
        try:
            wanted = tagger_policy(policy, use_filter=self._use_filter)
            if not self._devices:
                if self._next_look == 0.0:
                    remove(self._place)
            elif now >= self._next_look:
                self._ensure()
                self._tell(wanted)
                self._permit()
                self.status = self._describe()
            elif not self.problem:
                self._tell(wanted)
            else:
                return
            self.problem = ""
        except (HostdError, OSError) as error:
            self.problem = str(error)
            self.status = f"off: {error}; the library marks packets by itself"
        if now >= self._next_look:
            self._next_look = now + LOOK_S

    def _ensure(self) -> None:
        if os.geteuid() != 0:
            raise TaggerError(
                f"hostd runs as user {os.geteuid()}; expected root, for it loads programs into the kernel"
            )
        for tool in ("bpftool", "tc"):
            if shutil.which(tool) is None:
                raise TaggerError(f"the command `{tool}` is missing; expected bpftool and iproute2")
        try:
            digest = hashlib.sha256(self._object.read_bytes()).hexdigest()
        except OSError as error:
            raise TaggerError(
                f"{self._object}: {error.strerror}; expected what `make -C hostlib tagger` builds (it needs clang)"
            ) from error
        mount_bpf(self._bpf)
        found = Loaded.read(self._left)
        if found is None or found.object_sha256 != digest or not self._is_whole(found):
            found = self._load(digest, found)
        for device in sorted(set(found.devices) - set(self._devices)):
            detach(device)
        self._attach(found)
        if found.devices != self._devices or self._loaded is None:
            found = Loaded(found.object_sha256, self._devices, found.programs)
            write_whole(self._left, json.dumps(asdict(found)).encode() + b"\n")
        self._loaded = found

    def _is_whole(self, found: Loaded) -> bool:
        pins = [*MAPS, *(f"{found.programs}/{direction}" for direction in DIRECTIONS)]
        return all((self._bpf / pin).exists() for pin in pins)

    def _load(self, digest: str, before: Loaded | None) -> Loaded:
        """Loads the programs beside what is there; maps that fit are taken over, so that flows under way keep their
        rules."""
        programs = f"programs-{digest[:8]}-{os.getpid()}"
        # (no dots: the BPF file system keeps names with one for itself)
        target = self._bpf / programs
        _remove_pins(target)
        load = ["bpftool", "prog", "loadall", str(self._object), str(target), "type", "classifier"]
        reuse = [word for name in MAPS for word in ("map", "name", name, "pinned", str(self._bpf / name))]
        try:
            if not all((self._bpf / name).exists() for name in MAPS):
                raise TaggerError("no maps to take over")
            run(*load, *reuse)
        except TaggerError:
            for name in MAPS:
                (self._bpf / name).unlink(missing_ok=True)
            _remove_pins(target)
            run(*load, "pinmaps", str(self._bpf))
        found = Loaded(digest, self._devices, programs)
        self._attach(found)
        write_whole(self._left, json.dumps(asdict(found)).encode() + b"\n")
        for old in self._bpf.glob("programs-*"):
            if old.name != programs:
                _remove_pins(old)
        self._told = None
        return found

    def _attach(self, found: Loaded) -> None:
        for device in self._devices:
            check_device(device)
            if "clsact" not in run("tc", "qdisc", "show", "dev", device):
                run("tc", "qdisc", "add", "dev", device, "clsact")
            for direction in DIRECTIONS:
                program = self._bpf / found.programs / direction
                number = json.loads(run("bpftool", "-j", "prog", "show", "pinned", str(program)))["id"]
                place = ["dev", device, direction, "pref", PREFERENCE]
                if f" id {number} " not in run("tc", "filter", "show", *place):
                    run(
                        *("tc", "filter", "replace", *place, "handle", "1", "protocol", "all"),
                        *("bpf", "direct-action", "object-pinned", str(program)),
                    )

    def _tell(self, wanted: bytes) -> None:
        if wanted != self._told:
            run(
                *("bpftool", "map", "update", "pinned", str(self._bpf / "policy"), "key", *"0000", "value"),
                *map(str, wanted),
            )
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
        counted = ", ".join(f"{number} {name}" for name, number in self.counts().items())
        has_group = self._bpf.joinpath("flows").stat().st_mode & 0o070
        who = "" if has_group else f"; there is no group {GROUP}: for root's programs only"
        return f"at {', '.join(self._devices)}, filter {'on' if self._use_filter else 'off'}: {counted}{who}"

    def counts(self) -> dict[str, int]:
        """Packets since the maps were made, by what was done to them.

        Raises:
            TaggerError: nothing is loaded.
        """
        return read_counts(self._bpf)


def read_counts(bpf: Path) -> dict[str, int]:
    """The tagger's counters of the file system at `bpf`. Raises: TaggerError."""
    rows: list[dict[str, Any]] = json.loads(run("bpftool", "-j", "map", "dump", "pinned", str(bpf / "counts")))
    return {
        COUNTS[row["formatted"]["key"]]: sum(cpu["value"] for cpu in row["formatted"]["values"])
        for row in rows
        if row["formatted"]["key"] < len(COUNTS)
    }


def tagger_policy(policy: Policy | None, *, use_filter: bool) -> bytes:
    """`struct tagger_policy`: without a policy, or in modes that mark nothing, no priority at all."""
    if policy is None or policy.mode not in (Mode.PIAS, Mode.QCLIMB):
        return struct.pack("<64QII64s64s", *[UNUSED] * MAX_PRIORITIES, 0, 0, bytes(64), bytes([NOT_OURS] * 64))
    thresholds = [0, *policy.threshold_bytes]
    thresholds += [UNUSED] * (MAX_PRIORITIES - len(thresholds))
    priority_of_dscp = [NOT_OURS] * 64
    for priority, dscp in enumerate(policy.dscp):
        priority_of_dscp[dscp] = priority
    return struct.pack(
        "<64QII64s64s",
        *thresholds,
        policy.priorities,
        FILTER if use_filter else 0,
        bytes(policy.dscp),
        bytes(priority_of_dscp),
    )


def remove(place: Place) -> bool:
    """Takes away what a hostd left in the kernel; whether there was anything.

    The map that shims look for goes first, so that they mark by themselves before the programs go.

    Raises:
        TaggerError, PlaceError: something refused to go.
    """
    bpf, left = place.directory / "bpf", place.directory / "tagger.json"
    found = Loaded.read(left)
    for name in ("flows", "paths"):
        (bpf / name).unlink(missing_ok=True)
    if found is None:
        return False
    for device in found.devices:
        detach(device)
    for name in MAPS:
        (bpf / name).unlink(missing_ok=True)
    for programs in bpf.glob("programs-*"):
        _remove_pins(programs)
    try:
        left.unlink(missing_ok=True)
    except OSError as error:
        raise PlaceError(f"{left}: {error.strerror}") from error
    return True


def detach(device: str) -> None:
    """Takes our filters from a device; one that is gone has none. The clsact qdisc stays: others may use it."""
    for direction in DIRECTIONS:
        with contextlib.suppress(TaggerError):
            run("tc", "filter", "del", "dev", device, direction, "pref", PREFERENCE)


def check_device(device: str) -> None:
    """Raises: TaggerError: no such device, or its frames don't begin by an Ethernet header."""
    try:
        kind = Path(f"/sys/class/net/{device}/type").read_text().strip()
    except OSError:
        kind = link_type(device)
    if kind not in ("1", "772", "ether", "loopback"):
        raise TaggerError(f"{device} is of type {kind}; expected an Ethernet device")


def link_type(device: str) -> str:
    """By `ip`, for a /sys that shows another network namespace. Raises: TaggerError: there is no such device."""
    return str(json.loads(run("ip", "-j", "link", "show", "dev", device))[0]["link_type"])


def mount_bpf(directory: Path) -> None:
    """A BPF file system of the run directory's own, for `ip netns exec` hides the one at /sys/fs/bpf.

    Raises:
        TaggerError: it can't be mounted.
    """
    directory.mkdir(mode=0o755, exist_ok=True)
    if not os.path.ismount(directory):
        run("mount", "-t", "bpf", "-o", "mode=0755", "qclimb", str(directory))
    directory.chmod(0o755)  # by itself it is open to everybody


def _remove_pins(directory: Path) -> None:
    if directory.is_dir():
        for pin in directory.iterdir():
            pin.unlink()
        directory.rmdir()


def run(*command: str) -> str:
    """What a tool printed. Raises: TaggerError: it refused; says why in its own last words."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TaggerError(f"`{' '.join(command[:5])}`: {error}") from error
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        why = next((line for line in said if line.startswith(("Error", "libbpf: failed", "RTNETLINK"))), "")
        why = why or (said[-1] if said else f"exit status {done.returncode}")
        raise TaggerError(f"`{' '.join(command[:5])}`: {why.strip()}")
    return done.stdout
