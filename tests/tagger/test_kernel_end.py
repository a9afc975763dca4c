"""The end of a connection in the kernel mode: what leaves when TIME_WAIT is all that is left of its socket."""

import pytest
import stand
from hosts import PORTS
from scoped import kernel_mode
from stand import B6, DSCP, B, policy

pytestmark = pytest.mark.fabric
FIN, SIZE = 1, 60_000
CLIENT = """
import socket, sys
to, port, size, tos = sys.argv[1], *map(int, sys.argv[2:])
it = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET)
if tos:
    it.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
it.connect((to, port))
it.sendall(bytes(size))
"""
SERVER = """
import socket, sys
it = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("ready", flush=True)
it = it.accept()[0]
while it.recv(1 << 20):
    pass
sys.stdin.readline()  # its own FIN comes when the other end is no socket any more
"""


def packets(a, b, to, tos=0):
    """All that a client of `a` sends on a connection that it closes first: (its FIN and before, what follows)."""
    port = next(PORTS)
    with b.bench.capture("b") as pcap:
        server = b.start([stand.PYTHON, "-c", SERVER, str(port)], LD_PRELOAD="")
        assert server.stdout.readline() == "ready\n"
        assert a.start(stand.PYTHON, "-c", CLIENT, to, str(port), str(SIZE), str(tos)).wait(60) == 0

        def seen():
            return [packet for packet in stand.segments(pcap) if packet.dport == port]

        stand.wait_until(lambda: any(packet.flags & FIN for packet in seen()))
        server.communicate("\n", timeout=60)
        stand.wait_until(lambda: not seen()[-1].flags & FIN)
    [last] = [at for at, packet in enumerate(seen()) if packet.flags & FIN][-1:]
    return seen()[: last + 1], seen()[last + 1 :]


@pytest.mark.parametrize("to", [B, B6, f"::ffff:{B}"])
def test_the_last_acks_go_first_though_no_socket_is_left(pair, to):
    with kernel_mode(pair[0], policy()) as a:
        before, after = packets(a, pair[1], to)
    assert {packet.dscp for packet in after} == {DSCP[0]}
    assert before[-1].dscp != 0


def test_those_of_an_application_with_a_dscp_of_its_own_keep_that(pair):
    with kernel_mode(pair[0], policy()) as a:
        before, after = packets(a, pair[1], B, tos=0x28)
    assert {packet.dscp for packet in before + after} == {10}
