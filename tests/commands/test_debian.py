"""What the Debian packages lay down agrees with the commands that read it."""

import re
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "packaging" / "debian"


def test_each_setting_that_the_hosts_package_names_is_an_option() -> None:
    text = (DEBIAN / "hostd.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert len(settings) >= 4
    assert settings.keys() - {option.name for option in import_module("hostlib.hostd.cli").main.params} == set()


def test_each_unit_starts_a_command_that_its_package_links_to() -> None:
    rules = (DEBIAN / "rules").read_text(encoding="utf-8")
    units = sorted(DEBIAN.glob("*.service"))
    assert len(units) == 2
    for unit in units:
        started = re.search(r"^ExecStart=/usr/bin/(\S+)", unit.read_text(encoding="utf-8"), re.MULTILINE)
        assert started is not None
        assert re.search(rf"^\t\$\(VENV\).*\b{started[1]}\b", rules, re.MULTILINE)


def test_the_package_has_the_version_of_setup_py() -> None:
    version = re.search(r'version="([\d.]+)"', (ROOT / "setup.py").read_text(encoding="utf-8"))
    first = (DEBIAN / "changelog").read_text(encoding="utf-8").splitlines()[0]
    assert version is not None
    assert first.startswith(f"qclimb ({version[1]})")


@pytest.mark.parametrize("script", ["build-deb", "venv"])
def test_the_scripts_are_scripts(script: str) -> None:
    subprocess.run([shutil.which("bash") or "/bin/bash", "-n", ROOT / "packaging" / script], check=True, timeout=60)
