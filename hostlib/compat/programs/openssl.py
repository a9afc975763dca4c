"""openssl s_client and s_server: a file down, a file up, many short sessions."""

import subprocess
import time
from pathlib import Path

from hostlib.compat.bed import Bed, CompatError
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import body, same

SIZES = (1_000, 100_000, 10_000_000)
SESSIONS = 20
UPLOAD = body(1_500_000).hex().encode()
"""Text without the letters (B, K, Q, R, k) that s_client takes for commands at the start of what it reads."""


def certificate(bed: Bed) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1 and its key, in the bed's folder."""
    certificate, key = bed.folder / "certificate.pem", bed.folder / "key.pem"
    bed.run(
        *(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ),
        *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate),
    )
    return certificate, key


def run(bed: Bed) -> Outcome:
    """TLS 1.3 and 1.2, blocking."""
    chain, key = certificate(bed)
    results: dict[str, str] = {}
    for size in SIZES:
        (bed.folder / f"{size}.body").write_bytes(body(size))
    port = bed.port()
    bed.serve("openssl", "s_server", "-accept", str(port), "-cert", chain, "-key", key, "-WWW", "-quiet", port=port)
    client = ("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", chain, "-quiet", "-ign_eof")
    began, moved = time.monotonic(), 0
    for version in ("-tls1_3", "-tls1_2"):
        for size in SIZES:
            request = f"GET /{size}.body HTTP/1.0\r\n\r\n".encode()
            answer = bed.run(*client, version, stdin=request, statuses=(0, 1)).stdout
            results[f"{size} bytes down, {version[1:]}"] = same(answer.partition(b"\r\n\r\n")[2], body(size))
            moved += size
    rate = moved / (time.monotonic() - began)
    short = [
        bed.run(*client, stdin=b"GET /1000.body HTTP/1.0\r\n\r\n", statuses=(0, 1)).stdout.partition(b"\r\n\r\n")[2]
        for _ in range(SESSIONS)
    ]
    results[f"{SESSIONS} short sessions"] = verdict(all(got == body(1_000) for got in short))
    results[f"{len(UPLOAD)} bytes up"] = _upload(bed, chain, key)
    return Outcome(results, rate, "bytes/s")


def _upload(bed: Bed, chain: Path, key: Path) -> str:
    port = bed.port()
    landed = bed.folder / "landed"
    with landed.open("wb") as file:
        server = bed.serve(
            *("openssl", "s_server", "-accept", str(port), "-cert", chain, "-key", key, "-quiet", "-naccept", "1"),
            port=port,
            stdout=file,
            stdin=subprocess.PIPE,  # held open: s_server ends the session when its own input ends
        )
        client = ("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", chain, "-quiet", "-no_ign_eof")
        bed.run(*client, stdin=UPLOAD, statuses=(0, 1))
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            raise CompatError("s_server did not end after the client's end of session") from None
    return same(landed.read_bytes(), UPLOAD)


PROGRAM = Program("openssl", "s_client and s_server: files down and up, short sessions", (("openssl", "openssl"),), run)
