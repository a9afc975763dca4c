"""What status says of sockets that carry no DSCP, where no device has the tagger: as it is on this kernel, now."""

import json
import subprocess

import pytest
from hosts import PORTS
from scoped import cgroup, kernel_mode, send
from stand import B6, PYTHON, B, policy, put_policy, wait_until
from test_kernel import SIZE, static_c  # noqa: F401
from test_kernel_life import HOSTD, Bare, hostd, output, status_of
from test_kernel_sockets import OURS, Quiet
from test_marks import edges

from hostlib.hostd.scope import NO_DEVICE

pytestmark = pytest.mark.fabric
LISTENS = "import socket; it = socket.create_server(('', {port})); print('up', flush=True); input()"
EARLIER = "connections that began before it (1)"
SYN_ACKS = "SYN-ACKs of listeners (1)"
OWN = "connections whose application chose a DSCP (1)"
MAPPED = "connections of IPv6 sockets to IPv4 peers, for this kernel refuses IP_TOS there (1)"


def listener(a, is_in=True):
    port = next(PORTS)
    made = a.start(PYTHON, "-c", LISTENS.format(port=port), stdin=subprocess.PIPE, is_in=is_in)
    assert made.stdout.readline() == "up\n"
    return made


def test_status_names_what_was_there_before_it_and_listeners(pair, tmp_path):
    host, b = pair
    put_policy(host.run_dir, policy())
    with cgroup() as group:
        a = Bare(host, group)
        before = listener(a)
        with Quiet(a, b) as kept:
            daemon = hostd(host, tmp_path, "--kernel", str(group), "--tagger-dev", NO_DEVICE, "--poll-interval-s", "1")
            try:
                if "does not show who writes" in status_of(host)["kernel"]:
                    pytest.skip(status_of(host)["kernel"])
                assert status_of(host)["kernel_unmarked"] == [SYN_ACKS, EARLIER]
                assert kept.sends() == [0, 0]
                table = output([HOSTD, "status", "--run-dir", host.run_dir])
                assert f"not marked    {SYN_ACKS}; {EARLIER}\n" in table
                told = json.loads(output([HOSTD, "status", "--json", "--run-dir", host.run_dir]))
                assert told["kernel_unmarked"] == [SYN_ACKS, EARLIER]
                before.communicate("\n")
                wait_until(lambda: status_of(host)["kernel_unmarked"] == [EARLIER])
            finally:
                daemon.terminate()
                daemon.wait()


def now(a):
    """As a look tells it."""
    a.kernel._next_look = 0.0
    a.follow(policy())
    assert not a.kernel.problem
    return a.kernel.unmarked


@pytest.fixture
def kernel(pair):
    with kernel_mode(pair[0], policy(), devices=(NO_DEVICE,)) as made:
        yield made, pair[1]


@pytest.mark.parametrize("to", [B, B6])
def test_it_names_connections_whose_application_chose_a_dscp_and_none_that_is_marked(kernel, to):
    a, b = kernel
    with Quiet(a, b, to) as served, Quiet(a, b, to) as chooses:
        assert served.sends() in OURS
        assert chooses.sends() in OURS
        assert now(a) == ()
        assert chooses.sends(0x28)[0] == 0x28
        assert now(a) == (OWN,)
        assert chooses.sends(0)[0] == 0
        assert now(a) == (OWN,), "for good"
    assert now(a) == ()


def test_it_names_ipv6_sockets_to_ipv4_peers_where_the_kernel_leaves_them_unmarked(kernel, static_c):  # noqa: F811
    a, b = kernel
    seen = send(a, b, static_c, SIZE, to=f"::ffff:{B}")
    with Quiet(a, b, f"::ffff:{B}") as kept:
        kept.sends()
        assert now(a) == ((MAPPED,) if edges(seen) == [(0, 0)] else ())


def test_nobody_outside_the_cgroup_is_named_nor_at_another_port(pair):
    with kernel_mode(pair[0], policy(), devices=(NO_DEVICE,), ports=(next(PORTS),)) as a:
        for is_in in (True, False):
            other = listener(a, is_in)
            assert now(a) == ()
            other.communicate("\n")


def test_where_devices_have_the_tagger_there_is_nothing_to_name(pair):
    with kernel_mode(pair[0], policy()) as a:
        other = listener(a)
        assert now(a) == ()
        other.communicate("\n")


def test_where_sockets_cannot_be_asked_it_says_so_and_goes_on(kernel):
    a, _ = kernel
    [pin] = (a.host.run_dir / "bpf").glob("kernel-*/unmarked")
    pin.unlink()  # as where the kernel refused the program
    assert now(a) == (f"can't be told ({pin}: No such file or directory)",)
