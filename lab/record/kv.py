"""memcached with the value sizes that Facebook published, asked by clients that fan out over two servers.

Values: the ETC pool (homa_w1_fbkv, Atikoglu et al. 2012 as sampled by the Homa project). Asked for as a web server
does: multi-gets of some tens of keys over persistent connections, a set after each miss.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from lab.record.site import Site
from lab.workload.programs import WorkloadError

PORT = 11211
SERVERS, CLIENTS = ("h1", "h3"), ("h2", "h4")
PROGRAM = Path(__file__).parent / "programs" / "kv_client.py"


def record(site: Site, seconds: float, seed: int) -> dict[str, Any]:
    """Runs the traffic; returns its settings for the recording's metadata."""
    memcached = shutil.which("memcached")
    if memcached is None:
        raise WorkloadError("memcached is missing: `apt-get install memcached`")
    for host in SERVERS:
        argv = [memcached, "-u", "root", "-l", site.hosts[host], "-p", str(PORT), "-m", "64", "-t", "2"]
        server = site.start(host, argv, f"memcached-{host}")
        site.await_listening(server, f"memcached-{host}", host, PORT)
    settings = {"servers": 2, "clients": 2, "threads": 4, "keys": 20_000, "requests_per_s": 100, "zipf": 0.99}
    site.task("kv")
    clients = {}
    for n, host in enumerate(CLIENTS):
        argv = [sys.executable, str(PROGRAM), "--seconds", str(seconds), "--seed", str(seed * 10 + n)]
        argv += ["--servers", ",".join(f"{site.hosts[name]}:{PORT}" for name in SERVERS)]
        for name in ("threads", "keys", "zipf"):
            argv += [f"--{name}", str(settings[name])]
        argv += ["--rate", str(settings["requests_per_s"] / len(CLIENTS))]
        clients[f"kv-{host}"] = site.start(host, argv, f"kv-{host}")
    for name, process in clients.items():
        site.wait(process, name, seconds + 60)
    return {**settings, "values": "homa_w1_fbkv_bytes", "program": "memcached and a client of ours"}
