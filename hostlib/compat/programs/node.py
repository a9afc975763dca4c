"""Node both ways: HTTP with and without back-pressure, echoes in full duplex, half-closed TCP."""

import json

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome
from hostlib.compat.program import LOADS, Program


def run(bed: Bed) -> Outcome:
    """The load itself compares digests."""
    ports = str(bed.port()), str(bed.port())
    bed.serve("node", LOADS / "peer.js", "serve", *ports, port=int(ports[0]))
    done = bed.run("node", LOADS / "peer.js", "load", *ports, timeout_s=240)
    told = json.loads(done.stdout)
    return Outcome(told["results"], told["rate"], "bytes/s")


PROGRAM = Program("node", "client and server: HTTP, back-pressure, full duplex, half close", (("node", "nodejs"),), run)
