"""The Application Extension's files agree with each other; that a real SONiC takes them is not verified."""

import configparser
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "switchd" / "container"
INSTALL = (ROOT / "switchd" / "INSTALL.md").read_text()
KNOWN = {"version", "package", "service", "container", "processes", "cli"}


def test_the_manifest_has_what_sonic_requires_and_no_unknown_part() -> None:
    manifest = json.loads((CONTAINER / "manifest.json").read_text())
    assert manifest["package"]["name"] == manifest["service"]["name"] == "qclimb"
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["package"]["version"])
    assert set(manifest) <= KNOWN  # SONiC accepts typos in silence


def test_every_file_that_is_named_exists() -> None:
    text = (CONTAINER / "Dockerfile").read_text()
    manifest = json.loads((CONTAINER / "manifest.json").read_text())
    told = [manifest["cli"][command] for command in ("show", "config", "clear")]
    for plugin in (one for each in told for one in (each if isinstance(each, list) else [each])):
        (source,) = re.findall(rf"(\S+) {plugin} ", text)  # the image has it there
        assert (ROOT / "switchd/show" / source).exists(), source
    for names in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in names.split()), names
    (scripts,) = re.findall(r"install -m 0755 (.+) /usr/bin/", text)
    for script in scripts.split():
        assert os.access(CONTAINER / script, os.X_OK), script
    for name in re.findall(r"cat (\S+?)\)", INSTALL):
        assert (ROOT / name).exists(), name


def test_the_guide_names_certificates_as_sonics_yang_takes_them() -> None:
    """sonic-gnmi.yang; one row that it refuses, and every patch of CONFIG_DB and every reload fails."""
    (row,) = re.findall(r"hset 'GNMI\|certs' (.*)", INSTALL)
    words = row.split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert told.keys() == {"server_crt", "server_key", "ca_crt"}
    for name, path in told.items():
        assert re.fullmatch(rf"(/[a-zA-Z0-9_-]+)*/[a-zA-Z0-9_-]+\.{'key' if name == 'server_key' else 'cer'}", path)
        assert f" {path}\n" in INSTALL, "it was copied there"


def test_supervisord_starts_the_process_that_the_manifest_names() -> None:
    config = configparser.ConfigParser(inline_comment_prefixes=(";",))
    config.read(CONTAINER / "supervisord.conf")
    (process,) = json.loads((CONTAINER / "manifest.json").read_text())["processes"]
    section = config[f"program:{process['name']}"]
    assert (CONTAINER / Path(section["command"]).name).exists()


def test_the_image_has_no_compilers_no_lab_and_no_libyang_of_its_own() -> None:
    text = (CONTAINER / "Dockerfile").read_text()
    assert "apt-get" not in text and "sed '/^libyang/d'" in text and "--only-binary :all:" in text
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert kept == ["gnmi-models/qclimb", "gnmi-models/yang", "switchd"]
    assert set(re.findall(r"^COPY (\S+?)[/ ]", text, re.MULTILINE)) == {"switchd", "gnmi-models"}


def test_an_exit_that_nobody_asked_for_ends_the_container() -> None:
    """SONiC's exit listener acts on programs of critical_processes that are not restarted within the container."""
    config = configparser.ConfigParser(inline_comment_prefixes=(";",))
    config.read(CONTAINER / "supervisord.conf")
    assert config["program:qclimb-switchd"]["autorestart"] == "false"
    assert "program:qclimb-switchd" in (CONTAINER / "Dockerfile").read_text()
    assert "supervisor-proc-exit-listener" in (CONTAINER / "exit-listener.sh").read_text()
    assert config["eventlistener:supervisor-proc-exit-listener"]["command"] == "/usr/bin/exit-listener.sh"


@pytest.mark.parametrize("count", [1, 3])
def test_the_start_script_runs_a_daemon_an_asic_and_ends_with_any_of_them(count: int, tmp_path: Path) -> None:
    """And with none for a SIGHUP, as SONiC's own daemons."""
    daemon = tmp_path / "qclimb-switchd"
    daemon.write_text(
        f'#!/bin/sh\nkill -HUP $$\necho "$@" >>{tmp_path}/said\n'
        f'case "$*" in *asic2*) until [ "$(wc -l <{tmp_path}/said)" = 3 ]; do sleep 0.01; done; exit 1;; '
        "*asic*) exec sleep 600;; esac\n"
    )
    daemon.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NAMESPACE_COUNT": str(count)}
    done = subprocess.run([CONTAINER / "qclimb-switchd.sh"], env=env, timeout=300)
    said = sorted((tmp_path / "said").read_text().splitlines())
    common = "--backend swsscommon --tls-from-config-db"
    if count == 1:
        assert (done.returncode, said) == (0, [f"{common} --listen 9339"])
    else:
        assert done.returncode == 1
        assert said == [f"{common} --namespace asic{n} --listen {9339 + n}" for n in range(3)]


def test_the_start_script_is_sh() -> None:
    for script in CONTAINER.glob("*.sh"):
        assert subprocess.run(["sh", "-n", script], timeout=120).returncode == 0
