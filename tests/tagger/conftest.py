"""Two hosts with a shaped link between them, and the tagger at the sender's device, the receiver's, or both."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "shim"))
sys.path.insert(0, str(Path(__file__).parent))
import stand
from hosts import Host, hosts

from lab.build import make


@pytest.fixture(scope="session", autouse=True)
def built():
    """The library and the tagger's object as the sources say they are now."""
    failure = make(stand.ROOT / "hostlib", "lib", *(["tagger"] if shutil.which("clang") else []))
    assert not failure, failure


@pytest.fixture
def pair(request, tmp_path) -> tuple[Host, Host]:
    """(sender, receiver), each with a run directory of its own in which nothing is yet. A module's BENCH: its link."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    for tool in ("ip", "tc", "tcpdump", "clang", "bpftool", "nsenter"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    try:
        with hosts(tmp_path, **getattr(request.module, "BENCH", {})) as made:
            yield made
    except subprocess.CalledProcessError as error:
        if error.cmd[0] in ("ip", "tc", "mount"):
            pytest.skip(f"this kernel refuses {' '.join(error.cmd)}: {error.stderr}")
        raise
