"""A service's thread that ends by an error ends the process; every part starts its threads so."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from qclimb.loops import EXIT_STATUS, service_thread

ROOT = Path(__file__).parents[2]
ENDS_BY_ITSELF = {
    "gnmi-models/qclimb/loops.py",
    "hostlib/hostd/devices.py",  # one call in another namespace, whose error is raised where it is waited for
    "switchd/gnmi/loop.py",  # waits for other threads as the process ends
    "switchd/saving.py",  # one `config save`
}


@pytest.mark.parametrize("error", [ValueError("a defect"), MemoryError(), SystemExit(3)])
def test_a_thread_that_dies_ends_the_process(error: BaseException) -> None:
    ended: list[int] = []

    def dies(reason: BaseException) -> None:
        raise reason

    thread = service_thread("dies", dies, error, end=ended.append)
    thread.start()
    thread.join()
    assert ended == [EXIT_STATUS]


def test_one_that_returns_ends_nothing() -> None:
    ended: list[int] = []
    thread = service_thread("returns", ended.count, 1, end=ended.append)
    thread.start()
    thread.join()
    assert ended == []


def test_a_process_ends_though_its_main_thread_waits() -> None:
    program = (
        "import time; from qclimb.loops import service_thread; service_thread('it', int, 'x').start(); time.sleep(600)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == EXIT_STATUS
    assert "thread=it event=died" in done.stderr


def test_every_part_starts_its_threads_so() -> None:
    parts = ("gnmi-models/qclimb", "hostlib/hostd", "switchd", "orchestrator")
    sources = (path for part in parts for path in (ROOT / part).rglob("*.py"))
    bare = {str(path.relative_to(ROOT)) for path in sources if re.search(r"\bThread\(", path.read_text())}
    assert bare == ENDS_BY_ITSELF
