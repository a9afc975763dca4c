"""Java both ways: HttpServer and HttpClient, a selector's echo, blocking streams, transferTo."""

import json

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome
from hostlib.compat.program import LOADS, Program


def run(bed: Bed) -> Outcome:
    """The load itself compares bytes."""
    ports = str(bed.port()), str(bed.port())
    bed.run("javac", "-d", bed.folder, LOADS / "Peer.java")
    peer = ("java", "-cp", bed.folder, "Peer")
    bed.serve(*peer, "serve", *ports, port=int(ports[0]))
    done = bed.run(*peer, "load", *ports, timeout_s=240)
    told = json.loads(done.stdout)
    return Outcome(told["results"], told["rate"], "bytes/s")


PROGRAM = Program(
    "java",
    "client and server: HttpClient, HttpServer, a selector, streams, transferTo",
    (("java", "openjdk-17-jre-headless"), ("javac", "openjdk-17-jdk-headless")),
    run,
)
