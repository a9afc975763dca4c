"""hostd as its package deploys it: under the packaged unit, by systemd as the first process of a virtual machine."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from qclimb.hostfile import encode_policy
from qclimb.policy import Mode, Policy, default_dscp

from tests.commands.debian import ROOT, SOURCES, TOOLS, run

sys.path.insert(0, str(ROOT / "tests/guest"))
from guest import COMMAND, COMMAND_UNIT, Guest, GuestError, needs, package

TIMEOUT_S = 480.0
"""Of the guest."""
pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes a root file system: needs root"),
    pytest.mark.skipif(None in map(shutil.which, TOOLS), reason=f"needs all of {', '.join(TOOLS)}"),
    pytest.mark.skipif(not SOURCES, reason="the machine has no apt sources of Debian"),
]
POLICY = Policy(1, Mode.PIAS, (50_000, 150_000), default_dscp(3), slack_bytes=0)
SETTINGS = """name = "h1"
orchestrator = "http://127.0.0.1:9"
token_file = "/etc/qclimb/token"
kernel = ["/sys/fs/cgroup/box.slice"]
tagger_dev = ["e0"]
quickack_dev = ["e0"]
"""
"""The last is of an older version."""


@pytest.fixture(scope="module")
def kernel() -> Path:
    try:
        needs()
        return package()
    except GuestError as error:
        pytest.skip(str(error))


@pytest.fixture
def root(kernel: Path, clean: Path, packages: Path, tmp_path: Path) -> Path:
    """A clean Debian with the host's packages, their settings and the script."""
    place = tmp_path / "root"
    run("cp", "-a", "--reflink=auto", clean, place)
    debs = [deb for name in ("libqclimb", "qclimb-host") for deb in packages.glob(f"{name}_*.deb")]
    for path in (*debs, ROOT / "tests/commands/deployed.py"):
        shutil.copy(path, place / "srv")
    run("chroot", place, "apt-get", "install", "-y", *(f"/srv/{deb.name}" for deb in debs))
    (place / "srv/policy").write_bytes(encode_policy(POLICY))
    (place / "etc/qclimb/hostd.toml").write_text(SETTINGS)
    (place / "etc/qclimb/token").write_text("nothing\n")
    (place / "etc/qclimb/token").chmod(0o600)
    (place / "etc/systemd/system" / COMMAND).write_text(COMMAND_UNIT)
    return place


def test_under_its_unit_it_reaches_containers_outlives_a_kill_and_goes_when_told(kernel: Path, root: Path) -> None:
    done = Guest(kernel).run("exec python3 /srv/deployed.py", TIMEOUT_S, root=root, by_systemd=True)
    assert done.status == 0, f"{done.output[-4000:]}{done.files.get('journal', done.console)[-4000:]}"
    found = json.loads(done.output.splitlines()[-1])
    marked = list(POLICY.dscp)
    assert found["before"] == [0], "nothing ran yet"
    assert found["status"]["tagger"].startswith("at e0"), found
    assert "left as they are" not in found["status"]["tagger"], found
    assert found["pinned"], "libraries look for it"
    assert (found["container"], found["library"]) == (marked, marked), found
    assert found["result"] == "signal", "killed, and not ended"
    assert (found["after kill"], found["pinned after kill"]) == (marked, True), found
    assert found["again"] == marked, found
    assert "was taken away" in found["off"] or "were taken away" in found["off"], found
    assert found["after off"] == [0], found
