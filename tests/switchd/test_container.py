"""The Application Extension's files agree with each other; that a real SONiC takes them is not verified."""

import configparser
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "switchd" / "container"
KNOWN = {"version", "package", "service", "container", "processes", "cli"}


def test_the_manifest_has_what_sonic_requires_and_no_unknown_part() -> None:
    manifest = json.loads((CONTAINER / "manifest.json").read_text())
    assert manifest["package"]["name"] == manifest["service"]["name"] == "qclimb"
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["package"]["version"])
    assert set(manifest) <= KNOWN  # SONiC accepts typos in silence


def test_every_file_that_is_named_exists() -> None:
    text = (CONTAINER / "Dockerfile").read_text()
    manifest = json.loads((CONTAINER / "manifest.json").read_text())
    assert all(manifest["cli"][command] in text for command in ("show", "config"))  # the image has them there
    for name in re.findall(r"/usr/src/qclimb/(\S+)", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(r"cat (\S+?)\)", text):
        assert (ROOT / name).exists(), name


def test_supervisord_starts_the_process_that_the_manifest_names() -> None:
    config = configparser.ConfigParser(inline_comment_prefixes=(";",))
    config.read(CONTAINER / "supervisord.conf")
    (process,) = json.loads((CONTAINER / "manifest.json").read_text())["processes"]
    section = config[f"program:{process['name']}"]
    assert (CONTAINER / Path(section["command"]).name).exists()


def test_the_image_has_what_building_the_package_asks_for() -> None:
    apt = next(line for line in (CONTAINER / "Dockerfile").read_text().splitlines() if "apt-get install" in line)
    needed = {"gcc", "g++", "make", "python3-dev", "libyang2-dev"}  # g++: setup.py makes the simulator, too
    assert needed <= set(apt.split())


def test_the_start_script_is_sh() -> None:
    assert subprocess.run(["sh", "-n", CONTAINER / "qclimb-switchd.sh"], timeout=120).returncode == 0
