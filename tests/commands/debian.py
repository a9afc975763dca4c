"""The Debian packages, and a clean Debian for them; made of the machine's own apt sources."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("mmdebstrap", "dh", "dpkg-buildpackage", "apt-config")
"""By which both are made, as root."""
SOURCES = [
    path
    for path in (Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*"))
    if path.suffix in (".list", ".sources") and path.is_file() and "debian" in path.read_text()
]
WITHIN = "systemd,systemd-sysv,dbus,iproute2,python3,libstdc++6,libyang2,curl,ca-certificates"


def run(*words: object, **options: object) -> str:
    """What a command printed; it must succeed."""
    done = subprocess.run(  # type: ignore[call-overload]
        [str(word) for word in words], capture_output=True, text=True, check=False, timeout=900, **options
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return str(done.stdout) + str(done.stderr)


def make_root(place: Path) -> None:
    """A Debian with systemd and what the packages need of it."""
    told = run("apt-config", "dump", "--format", '%f "%v";%n', "Acquire")
    options = [line for line in told.splitlines() if re.match(r"Acquire::(Check|http|https)[\w:-]* \"[^\"]+\";$", line)]
    words = [word for line in options for word in ("--aptopt", line)]
    run("mmdebstrap", "--variant=minbase", f"--include={WITHIN}", *words, "bookworm", place, *SOURCES)
