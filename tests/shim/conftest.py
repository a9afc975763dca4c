import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import stand
from receiving import host  # noqa: F401

from lab.build import make


@pytest.fixture(scope="session", autouse=True)
def library():
    """libqclimb.so as the sources say it is now."""
    failure = make(stand.ROOT / "hostlib", "lib")
    assert not failure, failure
    return stand.LIBRARY


@pytest.fixture(scope="session", params=["glibc", "musl"])
def libc(request):
    """A libc for programs of our own, and the library that was built for it."""
    if request.param == "glibc":
        return stand.Libc("glibc", ("cc",), stand.LIBRARY)
    if not shutil.which("musl-gcc"):
        pytest.skip("needs musl-gcc (Debian: musl-tools)")
    library = stand.built("musl")
    return stand.Libc("musl", ("musl-gcc", "-isystem", str(library.parent / "include")), library)


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


@pytest.fixture(scope="module")
def link(tmp_path_factory):
    """Two hosts and a shaped link, with a capture on either side."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes network namespaces")
    for tool in ("ip", "tc", "tcpdump"):
        if not shutil.which(tool):
            pytest.skip(f"needs {tool}")
    try:
        with stand.bench(tmp_path_factory.mktemp("link")) as made:
            yield made
    except subprocess.CalledProcessError as error:
        if error.cmd[0] in ("ip", "tc"):
            pytest.skip(f"this kernel refuses {' '.join(error.cmd)}: {error.stderr}")
        raise
