"""libqclimb.so with a sanitizer, under programs without one: its runtime is loaded first, its findings go to files.

Only the library is instrumented: what is found is found in its code. Which programs live under a runtime differs.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from hostlib.run import LIBRARY
from lab.build import make
from tests.compat.bed import CompatError


@dataclass(frozen=True)
class Sanitizer:
    """`build` is its folder under hostlib/build; `options` its variable and what stands there beside `log_path`."""

    build: str
    runtimes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]

    def library(self) -> Path:
        """The library, built anew where it is out of date.

        Raises:
            CompatError: it can't be built here.
        """
        folder = LIBRARY.parents[1]
        path = LIBRARY.parent / self.build / LIBRARY.name
        if failure := make(folder, str(path.relative_to(folder))):
            raise CompatError(f"make {path.relative_to(folder)} fails: {failure[-200:]}; expected a library")
        return path

    def environment(self, library: Path, reports: Path) -> dict[str, str]:
        """For programs; `reports` is a folder that every user may write to, as a database runs as one of its own."""
        reports.mkdir()
        reports.chmod(0o1777)
        preload = ":".join([*map(_runtime, self.runtimes), str(library)])
        return {"LD_PRELOAD": preload} | {
            variable: f"{options}:log_path={reports}/found" for variable, options in self.options
        }

    def found(self, reports: Path) -> str:
        """The first line of each finding; empty: none."""
        said = [file.read_text(errors="replace") for file in sorted(reports.iterdir())]
        return "; ".join(line for text in said for line in text.splitlines() if "SUMMARY" in line or "error:" in line)


def _runtime(name: str) -> str:
    said = subprocess.run(
        ["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=False
    ).stdout.strip()
    if not Path(said).is_absolute():
        raise CompatError(f"cc has no {name}; expected gcc's sanitizer runtimes")
    return said


# Faults are the program's own to handle (Java and Node do); leaks are not looked for: they would be the program's.
_ADDRESS = "detect_leaks=0:verify_asan_link_order=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0"
SANITIZERS = {
    "address": Sanitizer(
        "sanitize", ("libasan.so", "libubsan.so"), (("ASAN_OPTIONS", _ADDRESS), ("UBSAN_OPTIONS", "print_stacktrace=1"))
    ),
    "thread": Sanitizer("thread", ("libtsan.so",), (("TSAN_OPTIONS", "exitcode=0:atexit_sleep_ms=0:handle_segv=0"),)),
}
