"""A backup job: at each run one curl uploads a host's volumes one after another over one kept connection.

A run is incremental (a few per cent of each volume), every second one full. Sizes differ by a few per cent from run to
run: what was packed changed a little.
"""

import argparse
import subprocess
import time
from pathlib import Path

import numpy as np

VOLUMES = 8
MEDIAN_BYTES, SPREAD = 16_000_000, 0.6
LIMITS_BYTES = 1_000_000, 40_000_000
FULL_EVERY = 2


def volumes(seed: list[int]) -> list[int]:
    """Sizes of a host's volumes in bytes: log-normal, our own choice."""
    random = np.random.default_rng(seed)
    sizes = random.lognormal(np.log(MEDIAN_BYTES), SPREAD, VOLUMES)
    return [int(size) for size in np.clip(sizes, *LIMITS_BYTES)]


def packed(whole: list[int], run: int, random: np.random.Generator) -> list[int]:
    """What a run uploads of each volume, bytes."""
    share = np.ones(len(whole)) if run % FULL_EVERY == 0 else random.uniform(0.01, 0.05, len(whole))
    return [max(int(size), 1) for size in whole * share * random.uniform(0.95, 1.05, len(whole))]


def upload(sizes: list[int], server: str, host: str, folder: Path) -> None:
    """One curl, one connection, a PUT a volume."""
    words: list[str] = []
    for volume, size in enumerate(sizes):
        path = folder / f"volume-{volume}"
        with path.open("wb") as file:
            file.truncate(size)
        words += ["-T", str(path), f"http://{server}/{host}/volume-{volume}"]
    own = ["--disable", "--noproxy", "*"]  # neither ~/.curlrc nor a proxy variable
    subprocess.run(["curl", *own, "--silent", "--show-error", "--fail", "--max-time", "300", *words], check=True)


def main() -> None:
    """Runs the job until the time is over."""
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("--server", required=True)
    parse.add_argument("--host", required=True)
    parse.add_argument("--folder", type=Path, required=True)
    parse.add_argument("--seconds", type=float, required=True)
    parse.add_argument("--seed", type=int, required=True)
    options = parse.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    whole, random = volumes([options.seed, 0]), np.random.default_rng([options.seed, 1])
    begun, run = time.monotonic(), 0
    while time.monotonic() - begun < options.seconds:
        upload(packed(whole, run, random), options.server, options.host, options.folder)
        run += 1
        time.sleep(random.exponential(0.5))


if __name__ == "__main__":
    main()
