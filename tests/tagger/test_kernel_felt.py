"""What hostd measures where the tagger marks packets: connections in scope that go first, and no others."""

import textwrap
from ipaddress import ip_address

import pytest
import stand
from hosts import PORTS
from qclimb.policy import Mode, Policy
from scoped import kernel_mode

from hostlib.hostd.stretch import Fabric, measure_stretch
from lab.fabric.netns import entered

pytestmark = pytest.mark.fabric
POLICY = Policy(1, Mode.PIAS, (20_000, 100_000), (47, 43, 39), 0)
ECHO = """
    import socket, sys, threading
    door = socket.create_server(("0.0.0.0", int(sys.argv[1])))
    print("ready", flush=True)
    def serve(one):
        while data := one.recv(1 << 16):
            one.sendall(data[-1:]) if data.endswith(b"!") else None
    while True:
        threading.Thread(target=serve, args=(door.accept()[0],), daemon=True).start()
"""
SEND = """
    import select, socket, sys
    sizes = list(map(int, sys.argv[3:]))
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as one:
        def ask(size):
            one.sendall(b"x" * (size - 1) + b"!")
            one.recv(1)
        for size in sizes:
            ask(size)
        print("sent", flush=True)
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            ask(size) if size < 20_000 else None
"""
"""Sends these sizes, and the last one again and again where it is small."""


def test_small_flows_in_scope_are_measured_and_large_ones_and_others_are_not(pair):
    a, b = pair
    port = next(PORTS)
    with kernel_mode(a, POLICY) as host:
        echo = b.start([stand.PYTHON, "-c", textwrap.dedent(ECHO), str(port)], LD_PRELOAD="")
        assert echo.stdout.readline()

        def sent(*sizes: int, is_in: bool = True):
            words = [stand.PYTHON, "-c", textwrap.dedent(SEND), stand.B, str(port), *sizes]
            program = host.start(*words, is_in=is_in, stdin=-1)
            assert program.stdout.readline() == "sent\n"
            return program

        def measured(fabric: Fabric = Fabric()) -> int:  # noqa: B008
            with entered(a.netns):
                found = measure_stretch(POLICY, fabric, a.run_dir / "bpf")
            return 0 if found is None else found.connections

        running = [echo, sent(1000, 1000, is_in=False)]
        try:
            assert measured() == 0
            running.append(sent(1000, 1000))
            stand.wait_until(lambda: measured() == 1)
            running.append(sent(1000, 400_000))
            assert measured() == 1
            assert measured(Fabric((), (ip_address(stand.B), port))) == 0
        finally:
            for program in running:
                program.kill()
                program.wait()
