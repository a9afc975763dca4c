"""nginx: wrk on kept connections, files by sendfile, TLS and HTTP/2, a proxy before itself, uploads; bytes compared."""

import os
import re
import shutil

from hostlib.compat.bed import Bed, CompatError
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import body, nginx_temp_paths, same, same_file, same_files, write_bodies
from hostlib.compat.programs.openssl import certificate

SIZES = (1_000, 100_000, 1_000_000)
REPEATS = 25
WRK_S = 4
BODIES_S = 30
CONFIG = """daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log stderr warn; {user}
events {{}}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_timeout 60; keepalive_requests 1000000;
  client_max_body_size 50m; {places}
  upstream self {{ server 127.0.0.1:{port}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port}; listen 127.0.0.1:{tls} ssl http2;
    ssl_certificate {chain}; ssl_certificate_key {key};
    root {folder}/files;
    location /up/ {{ dav_methods PUT; create_full_put_path on; }}
    location /proxy/ {{ proxy_pass http://self/; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    location /proxy-up/ {{ proxy_pass http://self/up/; proxy_request_buffering off; proxy_http_version 1.1; }}
  }}
}}
"""


def run(bed: Bed) -> Outcome:
    """curl compares bodies, wrk counts errors."""
    port, tls = bed.port(), bed.port()
    chain, key = certificate(bed)
    files = write_bodies(bed.folder, SIZES)
    config = bed.folder / "nginx.conf"
    config.write_text(
        CONFIG.format(
            folder=bed.folder,
            user="user root;" if os.geteuid() == 0 else "",
            places=nginx_temp_paths(bed.folder),
            port=port,
            tls=tls,
            chain=chain,
            key=key,
        )
    )
    bed.serve("nginx", "-c", config, port=port)
    plain, secure = f"http://127.0.0.1:{port}", f"https://127.0.0.1:{tls}"
    results = {}
    for how, flags, place in (
        ("kept", (), plain),
        ("at once", ("-Z",), plain),
        ("TLS", ("--http1.1",), secure),
        ("HTTP/2, at once", ("--http2", "-Z"), secure),
        ("proxied", (), f"{plain}/proxy"),
    ):
        for size in SIZES:
            results[f"{size} bytes, {how}"] = _bodies(bed, chain, flags, f"{place}/{size}", size)
    for how, place in (("nginx", f"{plain}/up"), ("a proxy", f"{plain}/proxy-up")):
        (bed.folder / "upload").write_bytes(body(20_000_000))
        bed.run("curl", "-fsS", "-T", bed.folder / "upload", f"{place}/upload")
        results[f"20 MB up to {how}"] = same_file(files / "up" / "upload", body(20_000_000))
        (files / "up" / "upload").unlink()
    part = bed.run("curl", "-fsS", "-r", "500000-799999", f"{plain}/1000000").stdout
    results["a range of 1 MB"] = same(part, body(1_000_000)[500_000:800_000])
    rate = 0.0
    for size in SIZES:
        said = bed.run("wrk", "-t2", "-c32", "--timeout", "30s", f"-d{WRK_S}s", f"{plain}/{size}").stdout.decode()
        found = re.search(r"Requests/sec:\s*([\d.]+)", said)
        rate += float(found[1]) * size if found else 0
        errors = re.findall(r"^.*(?:Socket errors|Non-2xx).*$", said, re.MULTILINE)
        results[f"wrk, 32 connections, {size} bytes"] = verdict(bool(found) and not errors, " ".join(errors) or said)
    return Outcome(results, rate, "bytes/s of wrk")


def _bodies(bed: Bed, chain: object, flags: tuple[str, ...], url: str, size: int) -> str:
    """REPEATS downloads of one file by one curl."""
    folder = bed.folder / "got"
    folder.mkdir()
    files = [folder / str(n) for n in range(REPEATS)]
    targets = [word for file in files for word in (url, "-o", str(file))]
    try:
        bed.run("curl", "-fsS", "--cacert", str(chain), *flags, *targets, timeout_s=BODIES_S)
    except CompatError as error:  # a hang too: one way that fails leaves the others to be seen
        shutil.rmtree(folder)
        return verdict(False, error)
    word = same_files(files, body(size))
    shutil.rmtree(folder)
    return word


PROGRAM = Program(
    "nginx",
    "wrk and curl: keep-alive, sendfile to 1 MB, TLS, HTTP/2, proxy, uploads",
    (("nginx", "nginx-light"), ("wrk", "wrk"), ("curl", "curl"), ("openssl", "openssl")),
    run,
)
