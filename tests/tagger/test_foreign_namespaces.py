"""Network namespaces that users of opted-in cgroups make: what they do there costs themselves their marks, at most."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from scoped import kernel_mode
from stand import policy, wait_until

from hostlib.hostd import devices
from hostlib.hostd.interfaces import Interface
from hostlib.hostd.tools import run
from hostlib.hostd.visits import Visits
from lab.fabric.netns import entered

pytestmark = pytest.mark.fabric
MANY = devices.INTERFACES_MOST + 1
MAKE = {
    "a name that is no text": "ip link add name $(printf '\\377\\376') type bridge",
    "a name that reads as an option": "ip link add name -x type bridge",
    "a tunnel": "ip tuntap add name t0 mode tun",
    "nothing but loopback": "true",
    "too many": f"(for i in $(seq {MANY}); do echo link add d$i type bridge; done) | ip -batch -",
}


@pytest.fixture
def kernel(pair):
    with kernel_mode(pair[0], policy(), devices=()) as made:
        yield made


@contextmanager
def namespace(a, script: str) -> Iterator[int]:
    """The number of one of a process of the opted-in cgroup, once the script has made its interfaces."""
    made = a.start("unshare", "--net", "sh", "-c", f"{script} && echo up && exec sleep 600")
    try:
        assert made.stdout.readline() == "up\n"
        wait_until(lambda: str(made.pid) in (a.cgroup / "cgroup.procs").read_text().split())
        yield Path(f"/proc/{made.pid}/ns/net").stat().st_ino
    finally:
        made.kill()
        made.wait()


def links(a, number: int) -> int:
    """How many programs are at its devices."""
    return len(list((a.host.run_dir / "bpf" / "links").glob(f"{number}-*")))


@pytest.mark.parametrize("what", MAKE)
def test_whatever_stands_in_one_of_them_the_mode_stays_on_and_others_are_reached(kernel, what):
    with namespace(kernel, MAKE[what]) as odd, namespace(kernel, "ip link add e0 type bridge") as ordinary:
        kernel.follow(policy())
        assert (kernel.tagger.problem, kernel.kernel.problem) == ("", "")
        assert (f"net:[{odd}] (more than 256 interfaces" in kernel.tagger.status) == (what == "too many")
        assert links(kernel, ordinary) == 2
        assert links(kernel, odd) == (2 if "name" in what else 0)

    def are_gone() -> bool:
        kernel.follow(policy())
        return not links(kernel, odd) + links(kernel, ordinary)

    wait_until(are_gone)


def test_an_interface_that_is_gone_by_now_takes_nothing_from_the_others(kernel):
    root = kernel.host.run_dir / "bpf"
    programs = next(root.glob("programs-*"))
    with entered(kernel.host.netns):
        there = devices.ethernet_devices()
        found = devices.keep(root / "links", programs, [Interface(4747, "gone", 1), *there])
    assert len(found) == 2 * len(there)


def test_what_one_of_them_raises_is_its_own_report():
    if os.geteuid() != 0:
        pytest.skip("needs root: enters network namespaces")
    here = Path("/proc/self/ns/net")
    number = here.stat().st_ino
    visits = Visits()

    def refuse(_: float) -> dict[str, str]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    visits.go({number: here, 1: Path("/nowhere"), 2: here}, refuse)
    assert visits.refused.keys() == {number, 1, 2}
    assert "and 0 more" not in visits.describe()
    assert not visits.given
    visits.go({}, refuse)
    assert visits.describe() == ""


def test_who_was_not_visited_in_time_is_first_the_next_time(monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("needs root: enters network namespaces")
    monkeypatch.setattr("hostlib.hostd.visits.ROUND_S", 0.0)
    visits, asked = Visits(), []
    visits.go({1: Path("/nowhere"), 2: Path("/nowhere")}, lambda until: asked.append(until) or {})
    assert not visits.refused
    monkeypatch.setattr("hostlib.hostd.visits.ROUND_S", 60.0)
    visits.go({3: Path("/nowhere"), 2: Path("/nowhere"), 1: Path("/nowhere")}, lambda until: {})
    assert list(visits.refused)[-1] == 3


def test_a_tool_may_print_what_is_no_text():
    assert run("printf", r"\377\376 x") == r"\xff\xfe x"


def test_an_unknown_device_is_refused_by_its_name():
    with pytest.raises(devices.DeviceError, match="e4747: no such device"):
        devices.named_interfaces(["e4747"])
