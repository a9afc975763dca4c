"""`qclimb-orchestrator init`: from nothing to an orchestrator that serves, in two commands."""

import json
import os
import re
import resource
import ssl
import stat
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from orchestrator.cli import main
from orchestrator.store.sqlite_file import path_of
from tests.waiting import wait_until

WORDS = ("--address", "127.0.0.1", "--switch", "leaf=192.0.2.11", "--switch", "spine=2001:db8::1")


def init(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["init", str(folder), *(words or WORDS)])


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_it_makes_certificates_and_settings_of_which_no_key_is_anybody_elses(tmp_path: Path) -> None:
    found = init(tmp_path / "c")
    assert found.exit_code == 0, found.output
    pairs = ("ca", "orchestrator-server", "orchestrator", "leaf", "spine")
    assert set(held(tmp_path / "c")) == {f"{name}.{kind}" for name in pairs for kind in ("pem", "key")} | {
        "orchestrator.toml"
    }
    for key in (tmp_path / "c").glob("*.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    settings = tomllib.loads((tmp_path / "c/orchestrator.toml").read_text())
    assert settings["listen"] == "127.0.0.1:8443"
    assert settings["bootstrap_token_file"] == str(tmp_path / "c/admin.token")


def test_a_folder_of_any_name_is_where_the_database_will_lie(tmp_path: Path) -> None:
    folder = tmp_path / "50%20 #?"
    assert init(folder).exit_code == 0
    settings = tomllib.loads((folder / "orchestrator.toml").read_text())
    assert path_of(settings["database"]) == folder / "store.db"


def test_what_is_there_stays_until_it_is_renewed_and_the_ca_always(tmp_path: Path) -> None:
    init(tmp_path)
    before = held(tmp_path)
    (tmp_path / "leaf.key").unlink()  # it went to its switch
    found = init(tmp_path, *WORDS, "--switch", "leaf2=192.0.2.12", "--json")
    assert json.loads(found.output)["made"] == ["leaf2.pem"]
    after = held(tmp_path)
    assert {name: after[name] for name in before if name != "leaf.key"} == {
        name: text for name, text in before.items() if name != "leaf.key"
    }
    assert "leaf.key" not in after
    assert init(tmp_path, *WORDS, "--renew").exit_code == 0
    renewed = held(tmp_path)
    same = {name for name in before if renewed[name] == before[name]}
    assert same == {"ca.pem", "ca.key", "orchestrator.toml"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--address", "0.0.0.0"), "no address at which others reach it"),
        (("--address", "here"), "no address at which others reach it"),
        (("--address", "127.0.0.1", "--switch", "leaf"), "no NAME=ADDRESS"),
        (("--address", "127.0.0.1", "--switch", "ca=192.0.2.1"), "one of the orchestrator's own"),
        (("--address", "127.0.0.1", "--switch", "../x=192.0.2.1"), "'../x'"),
        (
            ("--address", "127.0.0.1", "--group", "no-such-group"),
            "--group no-such-group: there is no such group, expected",
        ),
    ],
)
def test_a_wrong_line_is_one_sentence_and_makes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    found = init(tmp_path / "c", *words)
    assert found.exit_code == 2
    assert said in found.output
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("broken", ["ca.pem", "ca.key"])
def test_a_ca_of_which_half_is_missing_or_foreign_signs_nothing(tmp_path: Path, broken: str) -> None:
    init(tmp_path / "c")
    init(tmp_path / "other")
    (tmp_path / "c" / broken).write_bytes((tmp_path / "other" / broken).read_bytes())
    before = held(tmp_path / "c")
    found = init(tmp_path / "c", *WORDS, "--renew")
    assert (found.exit_code, "is not the key of" in found.output) == (2, True), found.output
    (tmp_path / "c" / broken).unlink()
    found = init(tmp_path / "c", *WORDS, "--renew")
    assert (found.exit_code, found.output.count("Error: ")) == (2, 1)
    del before[broken]
    assert held(tmp_path / "c") == before


def test_the_service_reads_its_own_keys_by_its_group_and_not_the_cas(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("gives files to a group: needs root")
    assert init(tmp_path, *WORDS, "--group", "daemon").exit_code == 0
    for name in ("orchestrator.key", "orchestrator-server.key", "orchestrator.toml"):
        found = (tmp_path / name).stat()
        assert (found.st_gid != 0, stat.S_IMODE(found.st_mode)) == (True, 0o640)
    for name in ("ca.key", "leaf.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("room_bytes", [100, 400, 700, 1000])
def test_what_a_full_disk_broke_off_is_made_by_the_next_call(tmp_path: Path, room_bytes: int) -> None:
    """By RLIMIT_FSIZE: no file may be longer."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, limits[1]))
    try:
        assert init(tmp_path / "c").exit_code != 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert init(tmp_path / "c").exit_code == 0
    assert init(tmp_path / "other").exit_code == 0
    names = {path.name: path.stat().st_size > room_bytes for path in (tmp_path / "other").iterdir()}
    assert {path.name for path in (tmp_path / "c").iterdir()} == names.keys() and any(names.values())
    settings = ((tmp_path / name / "orchestrator.toml").read_text() for name in ("c", "other"))
    assert len({len(text.replace("/other/", "/c/")) for text in settings}) == 1


def serve(folder: Path, log: Path, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "orchestrator.cli", "serve", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=log.open("wb"))


def address_of(log: Path) -> str:
    assert wait_until(lambda: "ready" in log.read_text()), log.read_text()
    return log.read_text().partition("listen=")[2].split()[0]


def test_what_it_made_serves_and_its_first_token_is_an_admins(tmp_path: Path) -> None:
    assert init(tmp_path / "c").exit_code == 0
    log = tmp_path / "log"
    process = serve(tmp_path, log, "--config", str(tmp_path / "c/orchestrator.toml"), "--listen", "127.0.0.1:0")
    try:
        address = address_of(log)
        token = (tmp_path / "c/admin.token").read_text().strip()
        request = urllib.request.Request(f"https://{address}/v1/audit", headers={"Authorization": f"Bearer {token}"})
        context = ssl.create_default_context(cafile=str(tmp_path / "c/ca.pem"))
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert answer.status == 200
        loggers = {re.split(r"\s", line)[3].partition(".")[0] for line in log.read_text().splitlines()}
        assert loggers == {"orchestrator"}, log.read_text()
    finally:
        process.terminate()
        process.wait(60)


def test_a_loopback_needs_no_certificate_and_says_so_of_switches(tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("--plain-loopback", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{tmp_path / 'a.db'}")
    process = serve(tmp_path, log, *words, "--bootstrap-token-file", str(tmp_path / "token"))
    try:
        address = address_of(log)
        head = {"Authorization": f"Bearer {(tmp_path / 'token').read_text().strip()}"}
        body = json.dumps({"address": "192.0.2.1:9339", "role": "leaf"}).encode()
        request = urllib.request.Request(
            f"http://{address}/v1/switches/l1",
            body,
            {**head, "Content-Type": "application/json"},
            method="PUT",
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status in (200, 201)
    finally:
        process.terminate()
        process.wait(60)
