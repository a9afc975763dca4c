"""The Debian packages in a clean Debian: built, held against lintian, then the guide's steps in it under its systemd.

Needs root, mmdebstrap, systemd-nspawn, debhelper and lintian, and the machine's own apt sources. Each is asked for.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import debian
from tests.commands.debian import ROOT, run

GUIDE = (ROOT / "docs/guide/deploy.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"^```((?:sh|toml) [\w-]+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
TOOLS = (*debian.TOOLS, "systemd-nspawn", "lintian")

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes a root file system: needs root"),
    pytest.mark.skipif(None in map(shutil.which, TOOLS), reason=f"needs all of {', '.join(TOOLS)}"),
    pytest.mark.skipif(not debian.SOURCES, reason="the machine has no apt sources of Debian"),
]


@pytest.fixture
def root(clean: Path, packages: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of it, with the packages in /srv."""
    place = tmp_path / "root"
    run("cp", "-a", "--reflink=auto", clean, place)
    for deb in packages.glob("*.deb"):
        if "dbgsym" not in deb.name:
            shutil.copy(deb, place / "srv")
    yield place
    run("rm", "-rf", "--one-file-system", place)


def within(place: Path, *words: object) -> str:
    """One command in a root, with no service beside it and no network."""
    flags = ["--quiet", "--register=no", "--keep-unit", "--private-network", "--pipe", "-D", place]
    return run("systemd-nspawn", *flags, *words)


def booted(place: Path, script: str) -> str:
    """What a script prints under the root's own systemd; it must succeed. Skips where none boots here."""
    (place / "srv/check.sh").write_text(script)
    (place / "etc/systemd/system/check.service").write_text(
        "[Unit]\nDescription=check\nAfter=basic.target\nFailureAction=poweroff-force\nSuccessAction=poweroff-force\n"
        "[Service]\nType=oneshot\nWorkingDirectory=/srv\nStandardOutput=append:/srv/check.log\n"
        "StandardError=append:/srv/check.log\nTimeoutStartSec=600\n"
        "ExecStartPre=/bin/touch /srv/booted\nExecStart=/bin/bash -euxo pipefail /srv/check.sh\n"
        "ExecStart=/bin/touch /srv/good\nExecStopPost=-/bin/journalctl -u qclimb-* -o cat --no-pager\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )
    for name in ("booted", "good", "check.log"):
        (place / "srv" / name).unlink(missing_ok=True)
    within(place, "systemctl", "enable", "check.service")
    flags = ["--quiet", "--register=no", "--keep-unit", "--private-network", "-D", place, "--boot"]
    done = subprocess.run(
        ["systemd-nspawn", *map(str, flags)], stdin=subprocess.DEVNULL, capture_output=True, timeout=1200, check=False
    )
    if not (place / "srv/booted").exists():
        pytest.skip(f"systemd does not boot in a container here: {done.stderr.decode(errors='replace')[-300:]}")
    log = (place / "srv/check.log").read_text(errors="replace")
    assert (place / "srv/good").exists(), log[-6000:]
    return log


def test_lintian_has_nothing_to_say(packages: Path) -> None:
    (changes,) = packages.glob("*.changes")
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", changes)
    assert said.strip() == ""


SERVICE = "[Service]\nExecStart=/usr/bin/python3 -m http.server -b 127.0.0.1 {port}\n"
HEAD = f"""
{BLOCKS["sh names"]}
ORCHESTRATOR=127.0.0.1
REST=https://127.0.0.1:8443
{"".join(line for line in BLOCKS["sh api"].splitlines(keepends=True) if "() {" in line)}
until_true() {{
	{{ set +x; }} 2>/dev/null
	for _ in $(seq 600); do
		if "$@" >/dev/null 2>&1; then set -x; return 0; fi
		sleep 0.1
	done
	set -x
	"$@"
}}
has_library() {{ grep -q libqclimb.so /proc/$(systemctl show -P MainPID $1)/maps; }}
met() {{ qclimb-hostd status --json | grep -q '"last_contact_at": *[1-9]'; }}
get() {{ "$@" curl -sS --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:8001/ | grep Directory; }}
"""
"""The guide's names for one machine, and conditions that are waited for, up to a minute each."""
INSTALL = f"""
{BLOCKS["sh install-orchestrator"]}
{BLOCKS["sh pki"]}
{BLOCKS["sh start-orchestrator"]}
until_true test -s $STATE/admin.token
until_true api $REST/v1/state
{BLOCKS["sh hosts"]}
{BLOCKS["sh install-host"]}
install -m 600 $ETC/h1.token $ETC/token
cp hostd.toml $ETC/hostd.toml
{BLOCKS["sh start-host"].splitlines()[0]}
until_true qclimb-hostd status
until_true met
{BLOCKS["sh one-service"]}
until_true has_library redis-server
{BLOCKS["sh all-services"]}
systemctl restart other
until_true has_library other
get env LD_PRELOAD=libqclimb.so
get qclimb-run --
if find / -xdev -path '*site-packages/lab/*' | grep .; then exit 1; fi
"""
UPGRADE_AND_PURGE = """
apt-get install -y ./newer/*.deb
systemctl is-active qclimb-hostd
until_true met
cmp hostd.toml $ETC/hostd.toml
apt-get install -y --reinstall ./qclimb-orchestrator_*.deb
systemctl is-active qclimb-orchestrator
until_true api $REST/v1/state
rm -r /etc/systemd/system/service.d /etc/systemd/system/redis-server.service.d
apt-get purge -y qclimb-orchestrator qclimb-host libqclimb
for place in $STATE /run/qclimb /usr/lib/qclimb-* /usr/lib/*/libqclimb.so $ETC/hostd.toml $ETC/orchestrator.toml; do
	if [ -e "$place" ]; then ls -R "$place"; exit 1; fi
done
test -s $ETC/ca.key
if systemctl is-active qclimb-hostd || systemctl is-active qclimb-orchestrator; then exit 1; fi
"""


def test_the_guides_steps_start_all_services_and_purge_leaves_nothing(root: Path) -> None:
    for unit, port in (("redis-server", 8001), ("other", 8002)):
        (root / f"etc/systemd/system/{unit}.service").write_text(SERVICE.format(port=port))
    settings = BLOCKS["toml hostd"].replace("192.0.2.1", "127.0.0.1")
    (root / "srv/hostd.toml").write_text(f"{settings}poll_interval_s = 1\n")
    booted(root, HEAD + INSTALL)
    said = within(root, "systemd-analyze", "verify", "qclimb-hostd.service", "qclimb-orchestrator.service")
    assert "qclimb" not in said, said
    newer = root / "srv/newer"
    newer.mkdir()
    for name in ("libqclimb", "qclimb-host"):
        (deb,) = (root / "srv").glob(f"{name}_*.deb")
        run("dpkg-deb", "-R", deb, newer / name)
        control = newer / name / "DEBIAN/control"
        control.write_text(control.read_text().replace("0.1.0", "0.1.1"))
        run("dpkg-deb", "-Znone", "-b", newer / name, newer / f"{name}.deb")
        shutil.rmtree(newer / name)
    booted(root, HEAD + UPGRADE_AND_PURGE)


@pytest.mark.parametrize(
    ("name", "words", "said"), [("hostd", "--version", "qclimb-hostd"), ("orchestrator", "--help", "init")]
)
def test_the_steps_of_a_container_file_run_in_a_plain_root(root: Path, name: str, words: str, said: str) -> None:
    text = (ROOT / f"packaging/{name}.Containerfile").read_text(encoding="utf-8")
    user, entry = "root", ""
    for line in text.splitlines():
        step, _, rest = line.partition(" ")
        if step == "COPY":
            *patterns, target = rest.split()
            (root / target.strip("/")).mkdir(parents=True, exist_ok=True)
            for pattern in patterns:
                (found,) = (root / "srv").glob(pattern)
                shutil.copy(found, root / target.strip("/"))
        elif step == "RUN":
            # Its sources were asked when the root was made; there is no network now.
            within(root, "/bin/sh", "-c", rest.replace("apt-get update && ", ""))
        elif step == "USER":
            user = rest
        elif step == "ENTRYPOINT":
            (entry,) = re.findall(r'"(.*?)"', rest)
        else:
            assert step in ("", "#", "FROM"), line
    assert said in within(root, f"--user={user}", entry, words)
