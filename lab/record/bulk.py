"""Large flows: backup jobs that upload to nginx by curl's PUT, beside the page mix with large downloads.

What is in a volume, and how often it is packed whole, is our own choice (programs/backup.py); nothing published is
claimed. Uploads and downloads go opposite ways through the same hosts' links.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from lab.record import web
from lab.record.site import Site
from lab.workload.programs import WorkloadError

PORT = 8081
PROGRAM = Path(__file__).parent / "programs" / "backup.py"
DOWNLOADS = (2_000_000, 12_000_000, 25_000_000)


def record(site: Site, seconds: float, seed: int) -> dict[str, Any]:
    """Runs the traffic; returns its settings for the recording's metadata."""
    if shutil.which("curl") is None:
        raise WorkloadError("curl is missing; `make setup` installs it")
    for host in web.SERVERS:
        web.serve(site, host, PORT, site.folder / f"backups-{host}", "dav_methods PUT; create_full_put_path on;")
    settings = web.serve_pages(site, seed, DOWNLOADS)
    site.task("bulk")
    jobs = {}
    for n, host in enumerate(web.CLIENTS):
        for other in range(2):
            name = f"backup-{host}-{other}"
            argv = [sys.executable, str(PROGRAM), "--host", name, "--folder", str(site.folder / name)]
            argv += ["--server", f"{site.hosts[web.SERVERS[other]]}:{PORT}", "--seconds", str(seconds)]
            jobs[name] = site.start(host, [*argv, "--seed", str(seed * 100 + 10 * n + other)], name)
    jobs |= web.start_browsers(site, seconds, seed, users=1)
    for name, process in jobs.items():
        site.wait(process, name, seconds + 240)
    return {**settings, "backups": len(web.CLIENTS) * 2, "program": "nginx, curl, and a client of ours"}
