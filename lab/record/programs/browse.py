"""Browsers: each user opens a page (Zipf), reads it, asks for its objects over six kept connections, thinks.

What a user has is asked for again now and then with If-Modified-Since, which a 304 answers.
"""

import argparse
import http.client
import itertools
import json
import queue
import threading
import time
from email.utils import formatdate
from pathlib import Path

import numpy as np

CONNECTIONS = 6
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"


class Browser:
    """One user's connections to one server; each has a thread that fetches what it is given."""

    def __init__(self, address: str, cookie: str) -> None:
        self.work: queue.Queue[tuple[str, bool] | None] = queue.Queue()
        self.headers = {"User-Agent": AGENT, "Accept": "*/*", "Accept-Encoding": "identity", "Cookie": cookie}
        self.threads = [threading.Thread(target=self._fetch, args=(address,)) for _ in range(CONNECTIONS)]
        for thread in self.threads:
            thread.start()

    def _fetch(self, address: str) -> None:
        host, port = address.split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        while (wanted := self.work.get()) is not None:
            path, known = wanted
            try:
                fresh = {"If-Modified-Since": formatdate(usegmt=True)} if known else {}
                connection.request("GET", path, headers={**self.headers, **fresh})
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()  # the server closes a connection after so many requests
            finally:
                self.work.task_done()
        connection.close()
        self.work.task_done()

    def open(self, paths: list[tuple[str, bool]]) -> None:
        """Fetches all, and returns when they are there."""
        for path in paths:
            self.work.put(path)
        self.work.join()

    def end(self) -> None:
        """Closes the connections."""
        for _ in self.threads:
            self.work.put(None)
        for thread in self.threads:
            thread.join()


def browse(pages: list[list[str]], servers: list[str], seed: list[int], until: float) -> None:
    """One user after another, each some pages long."""
    random = np.random.default_rng(seed)
    weight = 1 / np.arange(1, len(pages) + 1)
    for visit in itertools.count():
        browser = Browser(servers[int(random.integers(len(servers)))], f"session={random.bytes(16).hex()}; v={visit}")
        known: set[str] = set()
        for _ in range(int(random.integers(2, 12))):
            if time.monotonic() > until:
                break
            html, *objects = pages[int(random.choice(len(pages), p=weight / weight.sum()))]
            browser.open([(html, False)])
            time.sleep(random.exponential(0.01))
            asked = [(path, path in known) for path in objects if path not in known or random.random() < 0.3]
            browser.open(asked)
            known.update(objects)
            if random.random() < 0.03:
                browser.open([(f"/d{random.choice(3, p=[0.7, 0.25, 0.05])}.bin", False)])
            time.sleep(min(random.exponential(0.8), 5))
        browser.end()
        if time.monotonic() > until:
            return


def main() -> None:
    """Runs the users."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--pages", type=Path, required=True)
    parse.add_argument("--servers", required=True)
    parse.add_argument("--seconds", type=float, required=True)
    parse.add_argument("--users", type=int, required=True)
    parse.add_argument("--seed", type=int, required=True)
    options = parse.parse_args()
    pages = json.loads(options.pages.read_text(encoding="utf-8"))
    until = time.monotonic() + options.seconds
    users = [
        threading.Thread(target=browse, args=(pages, options.servers.split(","), [options.seed, n], until))
        for n in range(options.users)
    ]
    for user in users:
        user.start()
    for user in users:
        user.join()


if __name__ == "__main__":
    main()
