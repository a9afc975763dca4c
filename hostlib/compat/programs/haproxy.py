"""haproxy before nginx: answers and uploads that it splices, as HTTP and as TCP; bytes and errors compared."""

from hostlib.compat.bed import Bed
from hostlib.compat.outcome import Outcome, verdict
from hostlib.compat.program import Program
from hostlib.compat.programs.bodies import body, nginx_temp_paths, same_file, same_files, write_bodies

SIZES = (1_000, 60_000, 3_000_000)
REPEATS = 10
REQUESTS, CONNECTIONS = 3_000, 20
NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr warn; events {{}}
http {{
  access_log off; sendfile on; client_max_body_size 50m; {places}
  server {{
    listen 127.0.0.1:{port}; root {folder}/files;
    location /up/ {{ dav_methods PUT; create_full_put_path on; }}
  }}
}}
"""
HAPROXY = """global
  maxpipes 100
defaults
  timeout client 30s
  timeout server 30s
  timeout connect 5s
  option splice-auto
  option splice-request
  option splice-response
listen http
  mode http
  bind 127.0.0.1:{http}
  server one 127.0.0.1:{port}
listen tcp
  mode tcp
  bind 127.0.0.1:{tcp}
  server one 127.0.0.1:{port}
"""


def run(bed: Bed) -> Outcome:
    """curl compares bodies, ab counts errors."""
    port, http, tcp = bed.port(), bed.port(), bed.port()
    files = write_bodies(bed.folder, SIZES)
    (bed.folder / "nginx.conf").write_text(
        NGINX.format(folder=bed.folder, places=nginx_temp_paths(bed.folder), port=port)
    )
    (bed.folder / "haproxy.cfg").write_text(HAPROXY.format(http=http, tcp=tcp, port=port))
    bed.serve("nginx", "-c", bed.folder / "nginx.conf", port=port)
    bed.serve("haproxy", "-db", "-f", bed.folder / "haproxy.cfg", port=http)
    results: dict[str, str] = {}
    rate = 0.0
    for how, place in (("HTTP", f"http://127.0.0.1:{http}"), ("TCP", f"http://127.0.0.1:{tcp}")):
        for size in SIZES:
            got = [bed.folder / f"got-{how}-{size}-{n}" for n in range(REPEATS)]
            targets = [word for file in got for word in (f"{place}/{size}", "-o", str(file))]
            bed.run("curl", "-fsS", *targets)
            results[f"{size} bytes, {how}"] = same_files(got, body(size))
            bed.run("curl", "-fsS", "-T", files / str(size), f"{place}/up/{how}-{size}")
            results[f"{size} bytes up, {how}"] = same_file(files / "up" / f"{how}-{size}", body(size))
        said = bed.run("ab", "-q", "-k", "-n", str(REQUESTS), "-c", str(CONNECTIONS), f"{place}/60000").stdout.decode()
        told = {key: value.split() for key, _, value in (line.partition(":") for line in said.splitlines()) if value}
        good = told.get("Failed requests") == ["0"] and told.get("Complete requests") == [str(REQUESTS)]
        results[f"ab, {CONNECTIONS} connections, {how}"] = verdict(
            good and "Non-2xx responses" not in told, said[-200:]
        )
        rate += float(told["Requests per second"][0])
    return Outcome(results, rate, "requests/s")


PROGRAM = Program(
    "haproxy",
    "haproxy before nginx: spliced answers and uploads, as HTTP and as TCP; ab",
    (("nginx", "nginx-light"), ("/usr/sbin/haproxy", "haproxy"), ("curl", "curl"), ("ab", "apache2-utils")),
    run,
)
