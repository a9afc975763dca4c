"""The end of a connection by kernel mode and tagger: what leaves when TIME_WAIT is all that is left of its socket."""

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


def packets(pair, start, to, tos=0):
    """All that a client sends on a connection that it closes first: (its FIN and before, what follows)."""
    for _ in range(20):  # while the client is still about to close, the socket itself stays
        if found := talk(*pair, start, to, tos):
            return found
    pytest.skip("this machine is too busy: of no connection was TIME_WAIT all that was left")


def talk(a, b, start, to, tos):
    """The same of one connection; None: there was a socket left."""
    port = next(PORTS)
    with b.bench.capture("b") as pcap:
        server = b.start([stand.PYTHON, "-c", SERVER, str(port)], LD_PRELOAD="")
        assert server.stdout.readline() == "ready\n"
        assert start(stand.PYTHON, "-c", CLIENT, to, str(port), str(SIZE), str(tos)).wait(60) == 0

        def seen():
            return [packet for packet in stand.segments(pcap) if packet.dport == port]

        stand.wait_until(lambda: any(packet.flags & FIN for packet in seen()))
        stand.wait_until(lambda: not sockets(a, "fin-wait-1", port))
        is_left = bool(sockets(a, "time-wait", port))
        server.communicate("\n", timeout=60)
        stand.wait_until(lambda: not seen()[-1].flags & FIN)
    [last] = [at for at, packet in enumerate(seen()) if packet.flags & FIN][-1:]
    return (seen()[: last + 1], seen()[last + 1 :]) if is_left else None


def sockets(host, state, port):
    return stand.run("ip", "netns", "exec", host.netns, "ss", "-Htno", "state", state, "dport", "=", f":{port}")


@pytest.mark.parametrize("to", [B, B6, f"::ffff:{B}"])
def test_the_last_acks_go_first_though_no_socket_is_left(pair, to):
    with kernel_mode(pair[0], policy()) as a:
        before, after = packets(pair, a.start, to)
    assert {packet.dscp for packet in after} == {DSCP[0]}
    assert before[-1].dscp != 0


def test_those_of_an_application_with_a_dscp_of_its_own_keep_that(pair):
    with kernel_mode(pair[0], policy()) as a:
        before, after = packets(pair, a.start, B, tos=0x28)
    assert {packet.dscp for packet in before + after} == {10}


@pytest.mark.parametrize("to", [B, B6, f"::ffff:{B}"])
def test_the_library_leaves_the_last_acks_mark_to_a_socket_that_the_tagger_marks(pair, to):
    pair[0].tagger(policy())
    before, after = packets(pair, lambda *argv: pair[0].start([*argv]), to)
    assert {packet.dscp for packet in after} == {DSCP[0]}
    assert before[-1].dscp == DSCP[1], "its data go as the tagger says, to the last"
