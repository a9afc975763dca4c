"""iperf3: one and several streams, reverse, both ways, by sendfile; and UDP, which the library leaves alone."""

import json

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program

SECONDS = 2
WAYS: dict[str, tuple[str, ...]] = {
    "one stream": (),
    "reverse": ("-R",),
    "four streams": ("-P", "4"),
    "both ways": ("--bidir",),
    "sendfile": ("-Z",),
    "blocks of 500 bytes": ("-l", "500"),
    "a fixed number of bytes": ("-n", "20M"),
    "UDP": ("-u", "-b", "20M"),
}


def run(bed: Bed) -> Outcome:
    """A way has passed when iperf3 says so and bytes arrived."""
    port = bed.port()
    bed.serve("iperf3", "-s", "-B", "127.0.0.1", "-p", str(port), port=port)
    results, rate = {}, 0.0
    for name, flags in WAYS.items():
        length = () if "-n" in flags else ("-t", str(SECONDS))
        done = bed.run("iperf3", "-c", "127.0.0.1", "-p", str(port), "-J", *length, *flags, timeout_s=60, statuses=None)
        told = json.loads(done.stdout)
        end = told.get("end", {})
        summary = end.get("sum_received") or end.get("sum") or {}
        holds = done.returncode == 0 and "error" not in told and summary.get("bytes", 0) > 0
        results[name] = verdict(holds, told.get("error", done.stderr.decode()))
        if name in ("one stream", "reverse", "four streams"):
            rate += summary.get("bits_per_second", 0)
    return Outcome(results, rate, "bit/s")


PROGRAM = Program("iperf3", f"{', '.join(WAYS)}", (("iperf3", "iperf3"),), run)
