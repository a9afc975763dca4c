"""Quick ACKs on real routes, in a network namespace of our own."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hostlib.hostd.routes import with_quickack
from tests.hostd.bench import BIN

NAMESPACE = f"hostd-routes-{os.getpid()}"


def test_a_route_keeps_what_it_had() -> None:
    line = "198.19.2.0/24 via 198.19.1.254 proto static metric 50 initcwnd 20 congctl cubic linkdown"
    assert " ".join(with_quickack(line.split())) == line.removesuffix("linkdown") + "quickack 1"
    line = "default via fe80::1 proto ra expires 1799sec rto_min lock 5ms quickack 0"
    assert " ".join(with_quickack(line.split())) == "default via fe80::1 proto ra rto_min 5ms quickack 1"


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", "-n", NAMESPACE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def namespace() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = subprocess.run(["ip", "netns", "add", NAMESPACE], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespace: {made.stderr.strip()}")
    try:
        ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
        ip("link", "set", "eth0", "up")
        ip("link", "set", "eth1", "up")
        ip("address", "add", "198.19.1.1/24", "dev", "eth0")
        ip("address", "add", "2001:db8::1/64", "dev", "eth0", "nodad")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=False)


def set_quickack(device: str) -> subprocess.CompletedProcess[str]:
    program = f"from hostlib.hostd.routes import set_quickack; print(set_quickack({device!r}))"
    return subprocess.run(
        ["ip", "netns", "exec", NAMESPACE, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


def routes(*family: str) -> dict[str, set[str]]:
    """Each route's words, by destination, for a device."""
    lines = ip(*family, "route", "show", "dev", "eth0").splitlines()
    return {line.split()[0]: set(line.split()) for line in lines}


@pytest.mark.usefixtures("namespace")
def test_every_route_of_the_device_gets_quick_acks_and_keeps_its_attributes() -> None:
    ip("route", "add", "default", "via", "198.19.1.254", "initcwnd", "20", "rto_min", "10ms")
    ip("route", "add", "198.19.2.0/24", "via", "198.19.1.253", "dev", "eth0", "mtu", "lock", "1400", "metric", "7")
    before, before_six = routes("-4"), routes("-6")
    done = set_quickack("eth0")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == 4  # connected and two more, and one of IPv6
    assert routes("-4") == {to: words | {"quickack", "1"} for to, words in before.items()}
    assert "quickack" in routes("-6")["2001:db8::/64"]
    assert before_six["2001:db8::/64"] < routes("-6")["2001:db8::/64"]
    assert int(set_quickack("eth0").stdout) == 4  # again changes nothing
    assert routes("-4") == {to: words | {"quickack", "1"} for to, words in before.items()}


@pytest.mark.usefixtures("namespace")
def test_a_device_that_is_not_there_is_named_and_changes_nothing() -> None:
    done = set_quickack("eth7")
    assert done.returncode == 1
    assert 'RouteError: ip -4 route show dev eth7: Cannot find device "eth7"' in done.stderr


def test_hostd_without_the_device_says_so_and_serves(tmp_path: object) -> None:
    code = "from hostlib.hostd.cli import _quickack; print(_quickack('nodev0'))"
    done = subprocess.run([BIN / "python", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nodev0: not set, ")
