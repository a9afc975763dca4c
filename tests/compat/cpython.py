"""CPython's own tests of what touches sockets and descriptors, compared test by test by regrtest's JUnit file."""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

from tests.compat.bed import CompatError
from tests.compat.outcome import ABSENT, FAILED, PASSED, SKIPPED
from tests.compat.program import Course, Program

SUITES = ("test_socket", "test_asyncio", "test_ssl", "test_httplib", "test_selectors", "test_subprocess")
PYTHON_VARIABLE = "COMPAT_PYTHON"
SUITES_VARIABLE = "COMPAT_SUITES"
SUITE_TIMEOUT_S = 900
IGNORED = "*VSOCK*"
"""AF_VSOCK is none of ours, and in a virtual machine its accept() may wait for ever, bare too."""
_WORST_FIRST = (FAILED, SKIPPED, PASSED)


def interpreter() -> str:
    """COMPAT_PYTHON, else the interpreter behind this virtual environment: it must bring the package `test`."""
    return os.environ.get(PYTHON_VARIABLE) or getattr(sys, "_base_executable", None) or sys.executable


def results_of(junit: str) -> dict[str, str]:
    """The word of each test in a JUnit file of regrtest; a name that occurs twice has the worst of its words.

    A test one of whose subtests failed has no name there (CPython 3.11): it is missing, and so ABSENT in a comparison.
    """
    found: dict[str, str] = {}
    for case in ElementTree.fromstring(junit).iter("testcase"):
        name = case.get("name")
        if name is None:
            continue
        kinds = {child.tag for child in case}
        unexpected = case.get("outcome") == "UNEXPECTED_SUCCESS" or case.find("outcome") is not None
        word = FAILED if kinds & {"failure", "error"} or unexpected else SKIPPED if "skipped" in kinds else PASSED
        found[name] = min(found.get(name, PASSED), word, key=_WORST_FIRST.index)
    return found


def run_suites(course: Course) -> None:
    """One process a suite, so that one that crashes leaves the others; regrtest prints the stacks of a hang."""
    bed = course.bed
    suites = os.environ.get(SUITES_VARIABLE, " ".join(SUITES)).split()
    bed.run(interpreter(), "-c", "import test.test_socket, test.libregrtest")
    (bed.folder / "tmp").mkdir()
    for suite in suites:
        junit = bed.folder / f"{suite}.xml"
        words = f"-m test --junit-xml {junit} --timeout {SUITE_TIMEOUT_S - 60} -i {IGNORED} -u none {suite}"
        done = bed.run(
            interpreter(),
            *words.split(),
            timeout_s=SUITE_TIMEOUT_S,
            environment={"TMPDIR": str(bed.folder / "tmp")},
            statuses=None,
        )
        (bed.folder / f"{suite}.log").write_bytes(done.stdout + done.stderr)
        if not junit.exists():
            course.tell(suite, ABSENT)
            if bed.mode is None:
                raise CompatError(f"{suite} told no results: {_last(done.stdout + done.stderr)}")
            continue
        course.tell(suite, "ended")
        course.results |= results_of(junit.read_text())


def _last(said: bytes) -> str:
    return " ".join(said[-300:].decode(errors="replace").split())


CPYTHON = Program(
    "cpython",
    f"{Path(interpreter()).name}'s {' '.join(SUITES)} (others by {PYTHON_VARIABLE} and {SUITES_VARIABLE})",
    {},
    lambda: [run_suites],
    paced=False,
)
