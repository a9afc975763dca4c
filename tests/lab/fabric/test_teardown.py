"""Nothing is left behind: after the block, an error, Ctrl-C, SIGTERM, and at the next start after kill -9."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.cli import lab
from lab.fabric import Fabric, Topology, state
from lab.fabric.plan import namespaces

pytestmark = pytest.mark.fabric

TINY = Topology(leaves=1, spines=1, hosts_per_leaf=2)
OWNER = """
import sys, time
from lab.fabric import Fabric, Topology
with Fabric(Topology(leaves=1, spines=1, hosts_per_leaf=2), prefix=sys.argv[1]) as fabric:
    inside = fabric.popen("h1", ["sleep", "1000"])
    print(inside.pid, flush=True)
    time.sleep(1000)
"""


def traces_of(prefix):
    """Whatever of a fabric is still there."""
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if f"/{prefix}/" in line]
    names = [name for name in [*namespaces(TINY, prefix), f"{prefix}-probe"] if Path(f"/run/netns/{name}").exists()]
    return names + mounts + [str(path) for path in state.RUN.glob(f"{prefix}*")]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    deadline = time.monotonic() + 120
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


@pytest.fixture
def prefix(request):
    name = f"t{os.getpid()}d{abs(hash(request.node.name)) % 1000}"
    yield name
    with state.locked(name):
        state.take_down(name)


@pytest.fixture
def owner(prefix):
    # A shell's background job ignores SIGINT, and so would all that this test run starts there.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen([sys.executable, "-c", OWNER, prefix], stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    inside = int(process.stdout.readline())
    yield process, inside
    process.kill()
    process.wait()


def test_after_the_block_nothing_is_there(prefix):
    links_before = subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout
    with Fabric(TINY, prefix=prefix) as fabric:
        inside = fabric.popen("h2", ["sleep", "1000"])
        assert traces_of(prefix)
        assert subprocess.run(["ip", "-br", "link"], capture_output=True, text=True).stdout == links_before
    assert not traces_of(prefix)
    assert gone(inside.pid)


def test_a_program_that_is_still_on_its_way_into_a_namespace_is_ended_too(prefix, monkeypatch):
    monkeypatch.setattr(Fabric, "exec_argv", lambda self, node, argv: list(argv))
    with Fabric(TINY, prefix=prefix) as fabric:
        outside = fabric.popen("h1", ["sleep", "1000"])
    assert gone(outside.pid)


def test_after_an_error_in_the_block_nothing_is_there(prefix):
    with pytest.raises(ZeroDivisionError), Fabric(TINY, prefix=prefix):
        raise ZeroDivisionError
    assert not traces_of(prefix)


def test_after_an_error_while_building_nothing_is_there(prefix, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Fabric, "_load_shared_buffer", fail)
    with pytest.raises(ZeroDivisionError), Fabric(TINY, prefix=prefix):
        pass
    assert not traces_of(prefix)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_the_fabric_down(prefix, owner, number):
    process, inside = owner
    process.send_signal(number)
    assert process.wait(120) != 0
    assert not traces_of(prefix)
    assert gone(inside)


def test_the_next_start_removes_what_a_killed_owner_left(prefix, owner):
    process, inside = owner
    process.kill()
    process.wait()
    assert alive(inside) and traces_of(prefix)
    with Fabric(TINY, prefix=prefix) as fabric:
        assert gone(inside)
        assert fabric.record.owner_pid == os.getpid()
    assert not traces_of(prefix)


def test_the_command_down_removes_what_a_killed_owner_left_and_again_is_harmless(prefix, owner):
    process, inside = owner
    process.kill()
    process.wait()
    command = [str(Path(sys.executable).parent / "qclimb"), "lab", "down", "--prefix", prefix]
    first = subprocess.run(command, capture_output=True, text=True)
    assert first.returncode == 0 and "removed" in first.stdout
    assert not traces_of(prefix)
    assert gone(inside)
    second = CliRunner().invoke(lab, command[2:])
    assert second.exit_code == 0 and "nothing there" in second.stdout


def test_a_kill_in_the_middle_of_building_leaves_nothing_that_down_does_not_find(prefix):
    killer = OWNER.replace(
        "with Fabric",
        "import lab.fabric.fabric as f, os\nf.run_all_ = f.run_all\n"
        "f.Fabric._choose_congestion_control = lambda self: os.kill(os.getpid(), 9)\nwith Fabric",
    )
    process = subprocess.run([sys.executable, "-c", killer, prefix], capture_output=True)
    assert process.returncode == -9
    assert traces_of(prefix)
    with state.locked(prefix):
        assert state.take_down(prefix)
    assert not traces_of(prefix)


def test_a_kept_fabric_stays_until_down(prefix):
    with Fabric(TINY, prefix=prefix) as fabric:
        fabric.keep()
    again = Fabric.attach(prefix)
    assert again.run("h1", ["true"]).returncode == 0
    assert again.topology == TINY
    again.down()
    assert not traces_of(prefix)
