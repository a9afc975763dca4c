"""memcached with four threads under a load that knows each answer."""

import json
import sys

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome
from hostlib.compat.program import LOADS, Program

CONNECTIONS, OPERATIONS = 16, 1_500


def run(bed: Bed) -> Outcome:
    """The load's counts must be the same in every run, and no answer wrong."""
    port = bed.port()
    bed.serve(
        *("memcached", "-p", str(port), "-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "1024", "-u", "nobody"),
        port=port,
    )
    done = bed.run(sys.executable, LOADS / "memcached.py", str(port), str(CONNECTIONS), str(OPERATIONS), timeout_s=300)
    counts = json.loads(done.stdout)
    seconds = counts.pop("seconds")
    results = {name: str(count) for name, count in counts.items()}
    results["the load's last words"] = done.stderr[-200:].decode(errors="replace") or "none"
    return Outcome(results, counts["operations"] / seconds, "operations/s")


PROGRAM = Program(
    "memcached", "sets, gets and multi-gets of 1 byte to 400 KB, every answer known", (("memcached", "memcached"),), run
)
