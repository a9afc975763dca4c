"""nginx and a page mix: browsers that open pages of a shop-like site, six connections a browser, kept alive.

Sizes by kind of object are log-normal with medians and spreads of our own choice; nothing published is claimed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lab.record.site import Site
from lab.workload.programs import WorkloadError, nginx_settings

PORT = 8080
SERVERS, CLIENTS = ("h1", "h3"), ("h2", "h4")
PROGRAM = Path(__file__).parent / "programs" / "browse.py"

KINDS = {"html": (18_000, 0.8), "css": (9_000, 0.9), "js": (22_000, 1.1), "img": (14_000, 1.3), "api": (900, 1.0)}
"""Median size in bytes and spread (sigma of the logarithm)."""
DOWNLOADS = (300_000, 1_200_000, 4_000_000)
PAGES = 60


def make_site(folder: Path, seed: int, downloads: Sequence[int] = DOWNLOADS) -> list[list[str]]:
    """Writes the files; returns the pages: the HTML's path first, then its objects' in the order of asking."""
    random = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)

    def one(kind: str, name: str) -> str:
        median, spread = KINDS[kind]
        size = int(np.clip(random.lognormal(np.log(median), spread), 60, 3_000_000))
        (folder / f"{name}.{kind}").write_bytes(random.bytes(size))
        return f"/{name}.{kind}"

    shared = [one("css", f"s{n}") for n in range(4)] + [one("js", f"s{n}") for n in range(8)]
    pages = []
    for page in range(PAGES):
        page_objects = [shared[i] for i in sorted(random.choice(len(shared), 5, replace=False))]
        page_objects += [one("img", f"p{page}-{n}") for n in range(int(random.integers(3, 18)))]
        page_objects += [one("api", f"p{page}-{n}") for n in range(int(random.integers(0, 4)))]
        pages.append([one("html", f"p{page}"), *page_objects])
    for n, size in enumerate(downloads):
        (folder / f"d{n}.bin").write_bytes(bytes(size))
    return pages


def serve(site: Site, host: str, port: int, files: Path, more: str = "") -> None:
    """nginx with the files of a folder; `more`: settings of the server."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        raise WorkloadError("nginx is missing; `make setup` installs it")
    place = site.folder / f"nginx-{host}-{port}"
    place.mkdir(exist_ok=True)
    files.mkdir(exist_ok=True)
    settings = place / "nginx.conf"
    settings.write_text(nginx_settings(site.hosts[host], port, files, place, more), encoding="utf-8")
    name = f"nginx-{host}-{port}"
    server = site.start(host, [nginx, "-e", str(place / "error.log"), "-c", str(settings)], name)
    site.await_listening(server, name, host, port)


def serve_pages(site: Site, seed: int, downloads: Sequence[int] = DOWNLOADS) -> dict[str, Any]:
    """The site on both servers; returns its settings."""
    files = site.folder / "files"
    pages = make_site(files, seed, downloads)
    (site.folder / "pages.json").write_text(json.dumps(pages), encoding="utf-8")
    for host in SERVERS:
        serve(site, host, PORT, files)
    told = {kind: {"median_bytes": median, "sigma": spread} for kind, (median, spread) in KINDS.items()}
    return {"pages": PAGES, "objects": told, "downloads": downloads}


def start_browsers(site: Site, seconds: float, seed: int, users: int) -> dict[str, subprocess.Popen[Any]]:
    """So many users on each client host."""
    clients = {}
    for n, host in enumerate(CLIENTS):
        argv = [sys.executable, str(PROGRAM), "--pages", str(site.folder / "pages.json"), "--seconds", str(seconds)]
        argv += ["--servers", ",".join(f"{site.hosts[name]}:{PORT}" for name in SERVERS), "--users", str(users)]
        clients[f"browse-{host}"] = site.start(host, [*argv, "--seed", str(seed * 10 + n)], f"browse-{host}")
    return clients


def record(site: Site, seconds: float, seed: int) -> dict[str, Any]:
    """Runs the traffic; returns its settings for the recording's metadata."""
    settings = serve_pages(site, seed)
    site.task("web")
    for name, process in start_browsers(site, seconds, seed, users=8).items():
        site.wait(process, name, seconds + 90)
    return {**settings, "program": "nginx and a client of ours"}
