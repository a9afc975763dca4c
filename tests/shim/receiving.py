"""A host whose applications receive under OPTAX: a network namespace with a server in it."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from stand import environment

RECEIVE = Path(__file__).parent / "receive.py"
PORT = 7200
SLOW = "1"  # Mb/s: any head fills such a link, so whoever stands behind it is held back
_numbers = count()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a host is a network namespace")

TRIES = 20
"""Of what needs a head that fills the link: a busy machine may keep it from that for a while, and rightly nobody is
held back then, or the next one joins it."""


class Host:
    """A network namespace with a server; applications of it, with or without the library."""

    def __init__(self, name, path):
        self.name, self.path = name, path
        self.log = path / "log"
        self.running = []

    def start(self, role, optax=None, library=True, run="absent", log=None, loopback="on", task="", **words):
        settings = {"QCLIMB_MODE": "observe", "QCLIMB_LOG": str(log or self.log), "QCLIMB_OPTAX_LOOPBACK": loopback}
        settings["QCLIMB_TASK"] = task
        if optax is not None:
            settings["QCLIMB_OPTAX"] = optax
        env = environment(self.path / run, **settings) if library else dict(os.environ)
        argv = ["env", *(f"{key}={value}" for key, value in env.items()), sys.executable, RECEIVE, role]
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, *argv, json.dumps(words)], stdout=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process

    def ready(self, *args, **words):
        process = self.start(*args, **words)
        assert process.stdout.readline() == "ready\n"
        return process

    def says(self, process):
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return json.loads(out)

    def logged(self, word):
        return self.log.read_text().count(word) if self.log.exists() else 0


@pytest.fixture
def host(tmp_path):
    name = f"qcox{os.getpid()}-{next(_numbers)}"
    try:
        subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True, text=True)
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up", "mtu", "1500"], check=True)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    made = Host(name, tmp_path)
    try:
        made.ready("serve", library=False, port=PORT)
        yield made
    finally:
        for process in made.running:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
            process.stdout.close()
        subprocess.run(["ip", "netns", "del", name], check=True)
        for number in segments(made):  # the killed ones took nothing along
            subprocess.run(["ipcrm", "-m", str(number)], check=False)


def segments(host):
    """The System V segments that processes of `host` made: their ids."""
    pids = {process.pid for process in host.running}
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()]
    made_by = lines[0].index("cpid")
    return [int(line[1]) for line in lines[1:] if int(line[made_by]) in pids]


@contextmanager
def line_of(host):
    """The segment of the line of `host`, with a head in it: its id."""
    host.ready("head", SLOW, port=PORT)
    (found,) = segments(host)
    yield found
