"""The calls of bpf(2) that hostd makes: load an object, attach a program by a pinned link, read and write a map.

By libbpf, which iproute2 brings along, and by the system call itself where Debian's libbpf is older than what is asked
for. Its invariant: what was pinned stays when hostd ends; nothing here holds a program or a map by being open.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import errno
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hostlib.hostd.errors import HostdError

LIBRARY = "libbpf.so.1"
BPF_LINK_CREATE = 28
SYSCALL = {"x86_64": 321, "aarch64": 280}
CGROUP_SOCK_OPS = 3
TRACE_ITER = 28
MAP_TYPE_ARRAY = 2
TYPE_SOCK_OPS, FUNC_LOOP = 13, 181
TCX = {"ingress": 46, "egress": 47}
CLSACT = {"ingress": 1 << 0, "egress": 1 << 1}
"""enum bpf_tc_attach_point"""
NO_PLACE = {
    errno.EBADF: ", which should be a directory of cgroup v2",
    errno.EPERM: ", where another sockops program, or one above it, lets no other stand beside it (`bpftool cgroup"
    " tree` names it; expected one attached with the flag multi)",
}
"""What the kernel means by its answers to who wants to stand at a cgroup."""
REPLACE = 1 << 0
"""BPF_TC_F_REPLACE"""
BEFORE = 1 << 3
"""BPF_F_BEFORE: ahead of whatever is attached there, which could end the packet's way."""
PROGRAM_NAME = slice(64, 80)
"""Of `struct bpf_prog_info`."""
NAME_BYTES = 64
SAID_BYTES = 1 << 16


class BpfError(HostdError):
    """The kernel, or libbpf, refused; `errno` says why where it is known."""

    def __init__(self, sentence: str, number: int = 0) -> None:
        super().__init__(sentence)
        self.errno = number


class _OpenOptions(ctypes.Structure):
    """`struct bpf_object_open_opts` as far as `pin_root_path`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("object_name", ctypes.c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", ctypes.c_char_p),
    )


class _LinkInfo(ctypes.Structure):
    """`struct bpf_link_info`; of its union, what a tcx link says."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("program", ctypes.c_uint32),
        ("index", ctypes.c_uint32 * 29),
    )


class _Hook(ctypes.Structure):
    """`struct bpf_tc_hook`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("index", ctypes.c_int),
        ("point", ctypes.c_int),
        ("parent", ctypes.c_uint32),
    )


class _Filter(ctypes.Structure):
    """`struct bpf_tc_opts`."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("program", ctypes.c_int),
        ("flags", ctypes.c_uint32),
        ("program_id", ctypes.c_uint32),
        ("handle", ctypes.c_uint32),
        ("preference", ctypes.c_uint32),
    )


_Print = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_said: list[str] = []
_libc = ctypes.CDLL(None, use_errno=True)


def _listen(level: int, form: bytes, arguments: int) -> int:
    if level == 0:  # LIBBPF_WARN
        text = ctypes.create_string_buffer(SAID_BYTES)
        _libc.vsnprintf(text, SAID_BYTES, form, ctypes.c_void_p(arguments))
        _said.append(text.value.decode(errors="replace").strip())
    return 0


_heard = _Print(_listen)


@cache
def _libbpf() -> ctypes.CDLL:
    try:
        found = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise BpfError(f"{error}; expected libbpf 1 (Debian: libbpf1)") from error
    for name in ("bpf_object__open_file", "bpf_object__next_program", "bpf_program__name"):
        getattr(found, name).restype = ctypes.c_void_p
    found.bpf_program__name.restype = ctypes.c_char_p
    found.libbpf_set_print(_heard)
    return found


def _failed(what: str) -> BpfError:
    number = ctypes.get_errno()
    lines = [line.removeprefix("libbpf: ") for text in _said for line in text.splitlines()]
    # The verifier's last words, or what libbpf itself says first.
    judged = [at for at, line in enumerate(lines) if line.startswith("processed ")]
    said = lines[judged[0] - 1] if judged and judged[0] else next(iter(lines), "")
    return BpfError(f"{what}: {os.strerror(number)}{f' ({said})' if said else ''}", number)


def load(object_file: Path, root: Path, programs: Path) -> None:
    """Loads an object's programs and pins them in `programs`; its maps are those pinned in `root`, or become them.

    Raises:
        BpfError: the file is no object of this kernel's; nothing is left in `programs`.
    """
    lib = _libbpf()
    _said.clear()
    options = _OpenOptions(ctypes.sizeof(_OpenOptions), None, False, os.fsencode(root))
    opened = lib.bpf_object__open_file(os.fsencode(object_file), ctypes.byref(options))
    if not opened:
        raise _failed(str(object_file))
    handle = ctypes.c_void_p(opened)
    try:
        if lib.bpf_object__load(handle):
            raise _failed(str(object_file))
        programs.mkdir(mode=0o755, parents=True, exist_ok=True)
        program = lib.bpf_object__next_program(handle, None)
        while program:
            at = ctypes.c_void_p(program)
            pin = programs / os.fsdecode(lib.bpf_program__name(at))
            pin.unlink(missing_ok=True)
            if lib.bpf_program__pin(at, os.fsencode(pin)):
                raise _failed(str(pin))
            program = lib.bpf_object__next_program(handle, at)
    finally:
        lib.bpf_object__close(handle)


def has_loop() -> bool:
    """Whether the kernel has bpf_loop (Linux 5.17). Raises: BpfError: libbpf can't ask it."""
    found = _libbpf().libbpf_probe_bpf_helper(TYPE_SOCK_OPS, FUNC_LOOP, None)
    if found < 0:
        raise BpfError(f"bpf_loop: {os.strerror(-found)}", -found)
    return bool(found)


@contextlib.contextmanager
def pinned(pin: Path) -> Iterator[int]:
    """A descriptor of what is pinned there. Raises: BpfError."""
    _said.clear()
    fd = _libbpf().bpf_obj_get(os.fsencode(pin))
    if fd < 0:
        raise _failed(str(pin))
    try:
        yield fd
    finally:
        os.close(fd)


def _keep(fd: int, pin: Path) -> None:
    """Pins a link and closes it."""
    try:
        if fd < 0 or _libbpf().bpf_obj_pin(fd, os.fsencode(pin)):
            raise _failed(str(pin))
    finally:
        if fd >= 0:
            os.close(fd)


def trace(program: Path, link: Path) -> None:
    """Attaches a tracing program to what its section names."""
    with pinned(program) as fd:
        _keep(_libbpf().bpf_raw_tracepoint_open(None, fd), link)


def walk(program: Path) -> bytes:
    """What an iterator's program tells of all that there is: TCP sockets, of this thread's network namespace."""
    lib = _libbpf()
    _said.clear()
    with pinned(program) as fd:
        link = lib.bpf_link_create(fd, 0, TRACE_ITER, None)
    if link < 0:
        raise _failed(str(program))
    try:
        walker = lib.bpf_iter_create(link)
        if walker < 0:
            raise _failed(str(program))
        with os.fdopen(walker, "rb", 0) as reader:
            return reader.read() or b""
    except OSError as error:
        raise BpfError(
            f"{program}: {error.strerror or error}; expected to read what it tells", error.errno or 0
        ) from error
    finally:
        os.close(link)


def join_cgroup(program: Path, cgroup: Path, link: Path) -> None:
    """Has a sockops program hear of the sockets of a cgroup and of those below, or replaces the one that does."""
    with pinned(program) as fd:
        if link.exists():
            _replace(link, fd)
            return
        try:
            group = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise BpfError(
                f"{cgroup}: {error.strerror}; expected a directory of cgroup v2", error.errno or 0
            ) from error
        try:
            made = _libbpf().bpf_link_create(fd, group, CGROUP_SOCK_OPS, None)
            if made < 0:
                raise _failed(f"cgroup {cgroup}{NO_PLACE.get(ctypes.get_errno(), '')}")
            _keep(made, link)
        finally:
            os.close(group)


def join_device(program: Path, index: int, direction: str, link: Path) -> None:
    """Runs a program at a device's tcx hook (Linux 6.6) before all others, or replaces the one that `link` holds there.

    Raises:
        BpfError: errno EINVAL where the kernel has no tcx.
    """
    with pinned(program) as fd:
        if link.exists():
            if device_of(link) == index:
                _replace(link, fd)
                return
            link.unlink()
        attributes = (ctypes.c_uint32 * 16)(fd, index, TCX[direction], BEFORE)
        number = SYSCALL.get(os.uname().machine)
        if number is None:
            raise BpfError(f"the number of bpf(2) on {os.uname().machine} is not known here", 22)
        made = _libc.syscall(number, BPF_LINK_CREATE, attributes, ctypes.sizeof(attributes))
        if made < 0:
            raise _failed(str(link))
        _keep(made, link)


def join_clsact(program: Path, index: int, direction: str, preference: int, handle: int) -> None:
    """Runs a program as a filter at a device's clsact, which is made where there is none, or replaces the filter of
    this preference and handle whose program has the direction's name, as ours have.

    Raises:
        BpfError: errno EINVAL and others where another kind of filter has the preference, EEXIST: another's has the
            handle, too; ENODEV: no such device.
    """
    lib = _libbpf()
    both = _Hook(ctypes.sizeof(_Hook), index, CLSACT["ingress"] | CLSACT["egress"], 0)
    with pinned(program) as fd:
        made = lib.bpf_tc_hook_create(ctypes.byref(both))
        if made and made != -errno.EEXIST:
            raise _failed(f"clsact of device {index}")
        at = _Hook(ctypes.sizeof(_Hook), index, CLSACT[direction], 0)
        if (name := _program_at(at, preference, handle)) not in (None, direction):
            sentence = f"filter of preference {preference} at device {index}: the program {name} has its handle"
            raise BpfError(sentence, errno.EEXIST)
        options = _Filter(ctypes.sizeof(_Filter), fd, REPLACE, 0, handle, preference)
        if lib.bpf_tc_attach(ctypes.byref(at), ctypes.byref(options)):
            raise _failed(f"filter of preference {preference} at device {index}")


def leave_clsact(index: int, direction: str, preference: int, handle: int) -> None:
    """Takes a filter from a device's clsact, where it is there and its program has the direction's name."""
    at = _Hook(ctypes.sizeof(_Hook), index, CLSACT[direction], 0)
    if _program_at(at, preference, handle) == direction:
        _libbpf().bpf_tc_detach(
            ctypes.byref(at), ctypes.byref(_Filter(ctypes.sizeof(_Filter), 0, 0, 0, handle, preference))
        )


def _program_at(at: _Hook, preference: int, handle: int) -> str | None:
    """The name of the program that a filter runs; "" where it may not be asked for, None: there is no such filter."""
    lib, options = _libbpf(), _Filter(ctypes.sizeof(_Filter), 0, 0, 0, handle, preference)
    refused = lib.bpf_tc_query(ctypes.byref(at), ctypes.byref(options))
    _said.clear()  # a filter that is not there is no failure
    if refused:
        return None
    fd = lib.bpf_prog_get_fd_by_id(options.program_id)
    if fd < 0:
        return ""
    info, size = ctypes.create_string_buffer(PROGRAM_NAME.stop), ctypes.c_uint32(PROGRAM_NAME.stop)
    try:
        is_known = not lib.bpf_obj_get_info_by_fd(fd, info, ctypes.byref(size))
    finally:
        os.close(fd)
    return info.raw[PROGRAM_NAME].rstrip(b"\0").decode(errors="replace") if is_known else ""


def device_of(link: Path) -> int:
    """The device's index that a tcx link is attached to; 0: it is gone."""
    return int(_info(link).index[1])


def _info(link: Path) -> _LinkInfo:
    info, size = _LinkInfo(), ctypes.c_uint32(ctypes.sizeof(_LinkInfo))
    with pinned(link) as fd:
        if _libbpf().bpf_obj_get_info_by_fd(fd, ctypes.byref(info), ctypes.byref(size)):
            raise _failed(str(link))
    return info


def _replace(link: Path, program: int) -> None:
    with pinned(link) as fd:
        if _libbpf().bpf_link_update(fd, program, None):
            raise _failed(str(link))


def put(map_pin: Path, key: bytes, value: bytes) -> None:
    """Sets a map's value of a key."""
    with pinned(map_pin) as fd:
        if _libbpf().bpf_map_update_elem(fd, key, value, ctypes.c_uint64(0)):
            raise _failed(str(map_pin))


def put_map(outer_pin: Path, value: bytes) -> None:
    """Sets the one entry of an array of maps to a new array whose one value this is; the old goes with its users."""
    lib = _libbpf()
    _said.clear()
    inner = lib.bpf_map_create(MAP_TYPE_ARRAY, b"inner", 4, len(value), 1, None)
    if inner < 0:
        raise _failed(f"a map of {len(value)} bytes")
    try:
        if lib.bpf_map_update_elem(inner, bytes(4), value, ctypes.c_uint64(0)):
            raise _failed(f"a map of {len(value)} bytes")
        put(outer_pin, bytes(4), inner.to_bytes(4, "little"))
    finally:
        os.close(inner)


def drop(map_pin: Path, key: bytes) -> None:
    """Takes a key from a map, where it is there."""
    with pinned(map_pin) as fd:
        _libbpf().bpf_map_delete_elem(fd, key)


def keys(map_pin: Path, key_bytes: int) -> Iterator[bytes]:
    """The keys of a map."""
    with pinned(map_pin) as fd:
        before, after = None, ctypes.create_string_buffer(key_bytes)
        while not _libbpf().bpf_map_get_next_key(fd, before, after):
            yield after.raw
            before = ctypes.create_string_buffer(after.raw, key_bytes)


def count_up(map_pin: Path, entries: int) -> list[int]:
    """Sums of a per-CPU array of u64 counters over the processors."""
    processors = _libbpf().libbpf_num_possible_cpus()
    values = (ctypes.c_uint64 * processors)()
    found = []
    with pinned(map_pin) as fd:
        for entry in range(entries):
            if _libbpf().bpf_map_lookup_elem(fd, entry.to_bytes(4, "little"), values):
                raise _failed(str(map_pin))
            found.append(sum(values))
    return found
