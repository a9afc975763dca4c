"""libqclimb-tls.so: the size that HTTP announces below OpenSSL, told to the library to the byte."""

import re
import shutil
import ssl
import subprocess

import pytest
import trustme
from qclimb.policy import Mode
from stand import PYTHON, ROOT, environment, policy, put_policy, wait_until

from lab.build import make

SIZES = (40_000, 300_000, 1_000_000)
SERVER = """
import http.server, ssl, sys
class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        size = int(self.path[1:])
        self.send_response(200); self.send_header("Content-Length", str(size)); self.end_headers()
        for at in range(0, size, 65536):
            self.wfile.write(b"x" * min(65536, size - at))
    def log_message(self, *words): pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
context.maximum_version = ssl.TLSVersion[sys.argv[2]]
if sys.argv[2] == "TLSv1_2":
    context.set_ciphers(sys.argv[3])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def library():
    if failure := make(ROOT / "hostlib", "tls"):
        pytest.skip(f"`make -C hostlib tls` fails here: {failure[-300:]}")
    if not shutil.which("curl"):
        pytest.skip("needs curl")
    return ROOT / "hostlib" / "build" / "libqclimb-tls.so"


def served(library, tmp_path, *words: str, preload: bool = True) -> list[tuple[int, int]]:
    """(size told, size) of each flow of a server that answers SIZES over TLS, for which a size was told."""
    put_policy(tmp_path, policy(Mode.QCLIMB))
    certificate = tmp_path / "server.pem"
    issued = trustme.CA().issue_cert("127.0.0.1")
    certificate.write_bytes(issued.private_key_pem.bytes() + issued.cert_chain_pems[0].bytes())
    log = tmp_path / "log"
    more = environment(tmp_path, QCLIMB_LOG=str(log))
    if preload:
        more["LD_PRELOAD"] += f" {library}"
    process = subprocess.Popen(
        [PYTHON, "-c", SERVER, certificate, *words], env=more, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout
        port = int(process.stdout.readline())
        urls = [f"https://127.0.0.1:{port}/{size}" for size in SIZES]
        outputs = [word for _ in urls for word in ("-o", "/dev/null")]
        subprocess.run(["curl", "-sk", "--http1.1", *outputs, *urls], check=True, timeout=60)
        ended = re.compile(r"flow ends size=(\d+)")  # the handshake's flows, too
        wait_until(lambda: sum(map(int, ended.findall(log.read_text()))) >= sum(SIZES))
    finally:
        process.terminate()
        process.wait(60)
    found, told = [], 0
    for line in log.read_text().splitlines():
        if match := re.search(r"told size=(\d+)", line):
            told = int(match[1])
        elif told and (match := re.search(r"flow ends size=(\d+)", line)):
            found.append((told, int(match[1])))
            told = 0
    return found


@pytest.mark.parametrize(
    "words",
    [("TLSv1_3",), ("TLSv1_2", "ECDHE-ECDSA-AES128-GCM-SHA256"), ("TLSv1_2", "ECDHE-ECDSA-CHACHA20-POLY1305")],
    ids=lambda words: words[-1],
)
def test_what_is_told_is_what_openssl_writes(library, tmp_path, words):
    assert ssl.HAS_TLSv1_3
    found = served(library, tmp_path, *words)
    assert len(found) == len(SIZES)
    assert all(told == size for told, size in found), found


def test_records_of_another_kind_are_not_guessed(library, tmp_path):
    assert served(library, tmp_path, "TLSv1_2", "ECDHE-ECDSA-AES128-SHA256") == []


def test_nobody_looks_at_plaintext_unasked(library, tmp_path):
    assert served(library, tmp_path, "TLSv1_3", preload=False) == []
