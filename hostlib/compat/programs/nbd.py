"""nbdkit and nbdcopy: a disk over TCP, many requests at once on one connection and on several, both ways."""

import random
import time

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program

DISK_BYTES = 20_000_000
WAYS: dict[str, tuple[str, ...]] = {
    "one request at a time": ("--connections=1", "--requests=1", "--synchronous"),
    "64 requests at once": ("--connections=1", "--requests=64"),
    "four connections": ("--connections=4", "--requests=16"),
}


def run(bed: Bed) -> Outcome:
    """A way has passed when the disk is what was copied up, and the copy down is what the disk held."""
    port = bed.port()
    disk, new, back = (bed.folder / name for name in ("disk", "new", "back"))
    disk.write_bytes(bytes(DISK_BYTES))
    bed.serve("nbdkit", "-f", "-p", str(port), "-i", "127.0.0.1", "file", disk, port=port)
    address = f"nbd://127.0.0.1:{port}"
    results = {}
    begin = time.monotonic()
    for at, (name, flags) in enumerate(WAYS.items()):
        held = random.Random(at).randbytes(DISK_BYTES)
        new.write_bytes(held)
        up = bed.run("nbdcopy", *flags, "--flush", new, address, statuses=None)
        is_up = up.returncode == 0 and disk.read_bytes() == held
        results[f"up, {name}"] = verdict(is_up, up.stderr.decode(errors="replace") or "the disk holds other bytes")
        down = bed.run("nbdcopy", *flags, address, back, statuses=None)
        is_down = down.returncode == 0 and back.read_bytes() == held
        results[f"down, {name}"] = verdict(is_down, down.stderr.decode(errors="replace") or "other bytes came")
        back.unlink(missing_ok=True)
    return Outcome(results, 2 * len(WAYS) * DISK_BYTES / (time.monotonic() - begin), "bytes/s")


PROGRAM = Program(
    "nbd", f"a disk of 20 MB up and down: {', '.join(WAYS)}", (("nbdkit", "nbdkit"), ("nbdcopy", "libnbd-bin")), run
)
