"""Whether a program can be preloaded with libqclimb.so, and if not, why; read from its file, as kernel and ld.so do.

It runs nothing. Its invariant: no reason given means that ld.so will map the library; a program that then makes its
system calls past libc (Go, io_uring) is known only where its file shows it.
"""

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import InterpSegment

#: Linux follows this many `#!` lines (BINPRM recursion in fs/exec.c).
SCRIPTS_MAX = 5
SHEBANG_BYTES = 256
GLIBC = "libc.so.6"


@dataclass(frozen=True)
class Elf:
    """What of an ELF file decides about preloading."""

    bits: int
    little_endian: bool
    machine: str
    interpreter: str | None
    needed: tuple[str, ...]
    go: bool

    @property
    def architecture(self) -> str:
        """For messages: machine, word length and byte order."""
        return f"{self.machine.removeprefix('EM_')} {self.bits}-bit {'LSB' if self.little_endian else 'MSB'}"


def find(name: str, search_path: str) -> Path | None:
    """The file that execvp would run; a folder that may not be read has none."""
    found = shutil.which(name, path=search_path)
    return None if found is None else Path(found)


def reason_against(program: Path, library: Path, search_path: str) -> str | None:
    """Why the program can't be shimmed, as the rest of a sentence that begins with its name; None when it can.

    Scripts are followed to their interpreter, and `#!/usr/bin/env NAME` to NAME.
    """
    for _ in range(SCRIPTS_MAX + 1):
        try:
            with program.open("rb") as file:
                head = file.read(SHEBANG_BYTES)
        except OSError as error:
            return f"can't be read ({error.strerror}), so that nothing is known of it"
        if not head.startswith(b"#!"):
            return _reason_against_elf(program, library)
        words = head[2:].split(b"\n")[0].decode(errors="surrogateescape").split()
        if not words:
            return "has an empty #! line"
        interpreter = find(words[0], search_path)
        if interpreter is not None and interpreter.name == "env":
            words = [word for word in words[1:] if not word.startswith("-") and "=" not in word] or words
            interpreter = find(words[0], search_path)
        if interpreter is None:
            return f"names the interpreter {words[0]!r}, and there is none"
        program = interpreter
    return f"follows more than {SCRIPTS_MAX} interpreters"


def _reason_against_elf(program: Path, library: Path) -> str | None:
    try:
        elf, ours = read_elf(program), read_elf(library)
    except (OSError, ELFError) as error:
        return f"is neither an ELF program nor a #! script ({error})"
    via = f"(by way of {program}) "
    if elf.architecture != ours.architecture:
        return f"{via}is for {elf.architecture}, and libqclimb.so for {ours.architecture}"
    if elf.go:
        return f"{via}is a Go program, and Go makes its system calls without libc"
    if elf.interpreter is None:
        return f"{via}is linked statically, so that no library can be preloaded"
    linker = Path(elf.interpreter).name
    is_musl = linker.startswith("ld-musl")
    if not is_musl and not linker.startswith(("ld-linux", "ld.so", "ld64.so")):
        return f"{via}is started by {elf.interpreter}, which is neither glibc's dynamic linker nor musl's"
    if is_musl and GLIBC in ours.needed:
        return (
            f"{via}runs on musl ({elf.interpreter}), and libqclimb.so on glibc (`make -C hostlib musl` builds another)"
        )
    if not is_musl and GLIBC not in ours.needed:
        return f"{via}runs on glibc ({elf.interpreter}), and libqclimb.so on musl"
    privilege = secure_execution(program)
    return None if privilege is None else f"{via}{privilege}, so that the dynamic linker ignores LD_PRELOAD"


def read_elf(path: Path) -> Elf:
    """Reads the headers of an ELF file.

    Raises:
        OSError, ELFError: it can't be read, or is no ELF file.
    """
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic = (part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
        interpreters = (part.get_interp_name() for part in elf.iter_segments() if isinstance(part, InterpSegment))
        return Elf(
            bits=elf.elfclass,
            little_endian=elf.little_endian,
            machine=str(elf["e_machine"]),
            interpreter=next(interpreters, None),
            needed=tuple(tag.needed for part in dynamic for tag in part.iter_tags("DT_NEEDED")),  # type: ignore[attr-defined]
            # `strip` leaves both; dynamic Go (cgo, plugins) still does its own system calls: no connect or write is
            # imported.
            go=any(elf.get_section_by_name(name) is not None for name in (".go.buildinfo", ".note.go.buildid")),
        )


def secure_execution(program: Path) -> str | None:
    """What makes the kernel set AT_SECURE for this user and file (capabilities(7), security/commoncap.c), or None."""
    found = program.stat()
    if os.statvfs(program).f_flag & os.ST_NOSUID or _no_new_privileges():
        return None
    if found.st_mode & stat.S_ISUID and found.st_uid != os.getuid():
        return f"is set-user-ID to user {found.st_uid}"
    if found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IXGRP and found.st_gid != os.getgid():
        return f"is set-group-ID to group {found.st_gid}"
    if os.getuid() != 0 and _has_capabilities(program):
        return "has file capabilities"
    return None


def _has_capabilities(program: Path) -> bool:
    try:
        return bool(os.getxattr(program, "security.capability"))
    except OSError:
        return False


def _no_new_privileges() -> bool:
    try:
        return "NoNewPrivs:\t1" in Path("/proc/self/status").read_text()
    except OSError:
        return False
