"""What `make setup` installs of a checkout: two folders on the path, without a word from setuptools."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("setuptools.command.editable_wheel")
ROOT = Path(__file__).resolve().parents[2]


def test_an_editable_install_is_two_folders_on_the_path_and_setuptools_has_nothing_to_say(tmp_path):
    checkout, tools = tmp_path / "checkout", tmp_path / "tools"
    checkout.mkdir()
    tools.mkdir()
    for name in ("setup.py", "pyproject.toml", "README.md", "gnmi-models", "hostlib", "switchd", "orchestrator", "lab"):
        (checkout / name).symlink_to(ROOT / name)
    make = tools / "make"  # what it builds is not asked for here
    make.write_text("#!/bin/sh\n")
    make.chmod(0o755)
    found = subprocess.run(
        [sys.executable, "-W", "always", "setup.py", "-q", "editable_wheel", "--dist-dir", str(tmp_path / "dist")],
        cwd=checkout,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert found.returncode == 0, found.stderr
    assert "take precedence during imports" not in found.stdout + found.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (path,) = (name for name in opened.namelist() if name.endswith(".pth"))
        folders = [Path(line) for line in opened.read(path).decode().splitlines()]
    assert [folder.resolve() for folder in folders] == [checkout / ".", (ROOT / "gnmi-models").resolve()]
