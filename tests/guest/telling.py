"""pytest's plugin in the guest: what the kernel has, then each test's result as it ends, go to the shared directory, so
that a guest that did not end in time still tells what it saw. `-p telling` with this directory on the path.

Here as well, for it saves a second start of Python, which takes half a minute by emulation.
"""

import json
import os
from pathlib import Path

import pytest

OUT = Path(os.environ.get("GUEST_OUT", "/run/out"))
BEGAN, PASSED = "began", "passed"


def tell(**what: object) -> None:
    with (OUT / "results").open("a") as out:
        out.write(json.dumps(what) + "\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    import features

    (OUT / "features.json").write_text(json.dumps(features.found()))


def pytest_runtest_logstart(nodeid: str) -> None:
    tell(test=nodeid, outcome=BEGAN, seconds=0, why="")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line a test; a second one only where setting up or taking down went wrong."""
    if report.when == "call" or report.outcome != PASSED:
        tell(test=report.nodeid, outcome=report.outcome, seconds=report.duration, why=report.longreprtext)
