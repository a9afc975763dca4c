"""curl up and down: in one piece, in chunks, many at once on kept connections, by a slow reader."""

import sys
import time

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import LOADS, Program
from hostlib.compat.programs.bodies import body, same, same_files

SIZES = (0, 1, 999, 1_000, 1_001, 65_536, 1_000_000, 20_000_000)


def run(bed: Bed) -> Outcome:
    """Each size goes up and comes back; checks compare bytes."""
    port = bed.port()
    bed.serve(sys.executable, LOADS / "place.py", str(port), port=port)
    place = f"http://127.0.0.1:{port}"
    results: dict[str, str] = {}
    began, moved = time.monotonic(), 0
    for size in SIZES:
        file = bed.folder / f"{size}.body"
        file.write_bytes(body(size))
        for how, upload in (("piece", ("-T", file)), ("chunks", ("-H", "Transfer-Encoding: chunked", "-T", file))):
            if how == "chunks" and not size:
                continue  # curl 7.88 never sends the last chunk of an empty file, and waits
            bed.run("curl", "-fsS", *upload, f"{place}/{how}-{size}")
            got = bed.run("curl", "-fsS", f"{place}/{how}-{size}").stdout
            results[f"{size} bytes up in {how}, and down"] = same(got, body(size))
            moved += 2 * size
    rate = moved / (time.monotonic() - began)
    piped = bed.run("curl", "-fsS", "-T", "-", f"{place}/pipe", stdin=body(3_000_000))
    results["3 MB up from a pipe"] = verdict(piped.returncode == 0)
    results["3 MB down again"] = same(bed.run("curl", "-fsS", f"{place}/pipe").stdout, body(3_000_000))
    many = [(f"{place}/piece-65536", bed.folder / f"many-{n}") for n in range(60)]
    for flag, name in (("-Z", "60 at once"), ("--no-progress-meter", "60 on one connection")):
        bed.run("curl", "-fsS", flag, *[word for url, file in many for word in (url, "-o", file)])
        results[name] = same_files((file for _, file in many), body(65_536))
        for _, file in many:
            file.unlink(missing_ok=True)
    slow = bed.run("curl", "-fsS", "--limit-rate", "400k", f"{place}/piece-1000000").stdout
    results["1 MB to a slow reader"] = same(slow, body(1_000_000))
    return Outcome(results, rate, "bytes/s")


PROGRAM = Program(
    "curl", "curl against a small Python server: uploads and downloads, byte by byte", (("curl", "curl"),), run
)
