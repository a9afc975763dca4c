"""The image's build steps in a plain Debian, read from the Dockerfile; then the daemon in it over a redis.

The base image of SONiC can't be had here: a Debian with what the Dockerfile asks of it stands in, libyang's Python
module built on this machine. Needs root, mmdebstrap, Debian's Python, and the machine's own apt sources and pip
settings.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "switchd/container/Dockerfile"
BASE = "python3,python3-pip,python3-cffi,libyang2,redis-server,supervisor"
LIBYANG = "libyang==2.7.1"
MOST_BYTES = 100_000_000
"""of Python packages, ours and others', beside what SONiC's base has"""
SOURCES = [
    path
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*"))
    if path.suffix in (".list", ".sources") and path.is_file() and "debian" in path.read_text()
]

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes a root file system: needs root"),
    pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="needs mmdebstrap"),
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="Debian bookworm's Python is 3.11, this one is another"),
    pytest.mark.skipif(not SOURCES, reason="the machine has no apt sources of Debian"),
]


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def within(place: Path, script: str) -> str:
    """A script in the root, with the machine's network and pip settings."""
    mounted = f"mount -t proc proc /proc\n{script}"
    return run("unshare", "--mount", "--pid", "--fork", "chroot", place, "sh", "-euc", mounted)


def steps() -> Iterator[tuple[str, str]]:
    """Instruction and argument, lines joined."""
    text = re.sub(r"\\\n", " ", DOCKERFILE.read_text())
    for line in text.splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def is_sent(path: Path) -> bool:
    """Whether .dockerignore lets the builder have a file."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    kept, name = True, path.relative_to(ROOT).as_posix()
    for rule in rules:
        pattern = rule.removeprefix("!").removeprefix("**/")
        parts = [name, *(str(one) for one in Path(name).parents), *Path(name).parts, Path(name).name]
        if any(fnmatch.fnmatch(part, pattern) for part in parts):
            kept = rule.startswith("!")
    return kept


def copied(place: Path, sources: str, target: str) -> None:
    for source in (ROOT / one for one in sources.split()):
        if source.is_file():
            assert is_sent(source), source
            (place / target.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place / target.lstrip("/"))
            continue
        for file in source.rglob("*"):
            if file.is_file() and is_sent(file):
                to = place / target.lstrip("/") / file.relative_to(source)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, to)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The root after the Dockerfile's steps."""
    place = tmp_path_factory.mktemp("image") / "root"
    told = run("apt-config", "dump", "--format", '%f "%v";%n', "Acquire")
    options = [line for line in told.splitlines() if re.match(r"Acquire::(Check|http|https)[\w:-]* \"[^\"]+\";$", line)]
    words = [word for line in options for word in ("--aptopt", line)]
    run("mmdebstrap", "--variant=minbase", f"--include={BASE}", *words, "bookworm", place, *SOURCES)
    for file in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"):
        if Path(file).exists():
            (place / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place / file.lstrip("/"))
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    if Path(wheels).is_dir():
        shutil.copytree(wheels, place / wheels.lstrip("/"), dirs_exist_ok=True)
    # What docker-config-engine has and Debian has not: libyang's Python module, supervisord's place.
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", place / "opt", LIBYANG)
    within(place, "PIP_BREAK_SYSTEM_PACKAGES=1 pip3 install -q --no-deps /opt/libyang-*.whl; rm /opt/*.whl")
    within(place, "ln -sf /usr/bin/supervisord /usr/local/bin/supervisord; mkdir -p /etc/supervisor/conf.d")
    for word, rest in steps():
        if word == "COPY":
            copied(place, *rest.rsplit(" ", 1))
        elif word == "RUN":
            within(place, rest)
    yield place
    run("rm", "-rf", "--one-file-system", place)


def test_every_step_is_one_that_was_tried() -> None:
    assert {word for word, _ in steps()} == {"ARG", "FROM", "COPY", "RUN", "ENTRYPOINT"}


def test_there_is_what_the_manifest_names_and_no_more_than_a_switch_needs(image: Path) -> None:
    manifest = json.loads((ROOT / "switchd/container/manifest.json").read_text())
    for told in (manifest["cli"][name] for name in ("show", "config", "clear")):
        for file in told if isinstance(told, list) else [told]:
            assert (image / file.lstrip("/")).is_file(), file
    (entry,) = [json.loads(rest) for word, rest in steps() if word == "ENTRYPOINT"]
    assert os.path.lexists(image / entry[0].lstrip("/"))
    config = (image / "etc/supervisor/conf.d/supervisord.conf").read_text()
    for command in re.findall(r"^command=(/usr/bin/[\w.-]+\.sh)", config, re.MULTILINE):
        assert os.access(image / command.lstrip("/"), os.X_OK), command
    found = {path.name for path in (image / "usr/local/lib/qclimb").iterdir()}
    assert found == {"qclimb", "switchd"}
    for name in ("gcc", "cc", "g++", "make"):
        assert not list(image.glob(f"usr/bin/{name}")), name
    assert not list(image.glob("usr/local/lib/qclimb/**/tests"))
    assert {path.parent.name for path in image.glob("usr/**/libyang.so*")} == {"x86_64-linux-gnu"}
    assert [path.parent.name for path in image.glob("usr/**/libyang/__init__.py")] == ["libyang"]
    assert sum(path.lstat().st_size for path in (image / "usr/local").rglob("*")) < MOST_BYTES


def test_the_daemon_runs_in_it_and_its_commands_answer(image: Path) -> None:
    intent = {"generation": "3", "admin_state": "enabled"}
    rows = {
        "PORT|Ethernet0": {"speed": "25000"},
        "QCLIMB|global": intent,
        "QCLIMB_CLASS|0": {"dscp": "47", "queue": "7", "max_share": "0.5"},
    }
    writes = "\n".join(
        f"redis-cli -s /tmp/r -n 4 hset '{key}' {' '.join(shlex.quote(one) for pair in row.items() for one in pair)}"
        for key, row in rows.items()
    )
    said = within(
        image,
        f"""
        redis-server --port 0 --unixsocket /tmp/r --daemonize yes >/dev/null
        until redis-cli -s /tmp/r ping >/dev/null 2>&1; do sleep 0.1; done
        {writes} >/dev/null
        redis-cli -s /tmp/r -n 4 set CONFIG_DB_INITIALIZED 1 >/dev/null
        qclimb-switchd --backend redis --redis unix:///tmp/r --plain-loopback 127.0.0.1:9349 --quiet-s 0 2>/tmp/log &
        daemon=$!
        for _ in $(seq 600); do
            redis-cli -s /tmp/r -n 6 hget 'QCLIMB_STATUS|global' applied_generation | grep -q 3 && break
            sleep 0.1
        done
        python3 -m switchd.dump --backend redis --redis unix:///tmp/r >/tmp/dump.json
        python3 -m switchd.patch --backend redis --redis unix:///tmp/r --admin-state disabled >/tmp/patch.json
        python3 -m switchd.show --redis unix:///tmp/r status --json
        kill $daemon || {{ cat /tmp/log >&2; exit 1; }}
        wait $daemon
        redis-cli -s /tmp/r shutdown nosave || true
        """,
    )
    told = json.loads(said[said.index("{") :])
    assert (told["applied_generation"], told["daemon"]) == ("3", "running")
    dump = json.loads((image / "tmp/dump.json").read_text())
    (scheduler,) = dump["switch"]["CONFIG_DB"]["SCHEDULER"].values()
    assert scheduler["pir"] == str(25_000 * 125_000 // 2)
    assert json.loads((image / "tmp/patch.json").read_text())
