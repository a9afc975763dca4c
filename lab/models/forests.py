"""Recordings with what forests said of their flows, by the command `qclimb model foretell`; kept in a folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np

from lab.experiment.store import whole
from lab.sim import SimulationError
from lab.sim.replay import Recorded

RECORDINGS = Path(__file__).parents[1] / "recordings"
FOLDER = Path("lab-results/forests")
TREES, FULL_TREES = 10, 100
"""Trees a forest: for speed, and where all is asked; the second is what the product grows where it does not calibrate,
as here (orchestrator/models/forest_size.py). Bounds are extremes over trees: more are wider and cover more."""
SAYS = (
    "lab/models/foretell.py",
    *(f"orchestrator/{name}.py" for name in ("models/bounds", "models/trees", "models/report")),
    *(f"orchestrator/plan/{name}.py" for name in ("sizes", "thresholds")),
)
"""Sources that what is said depends on: a kept answer is of these and no others."""


@cache
def _rules() -> str:
    sources = [Path(__file__).parents[2] / name for name in SAYS]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]


@cache
def recorded(name: str, depth: int = 10, trees: int = TREES) -> Recorded:
    """The later three fifths of a recording of lab/recordings. Raises: SimulationError."""
    from qclimb import recording
    from qclimb.errors import QclimbError

    path = RECORDINGS / f"{name}.parquet"
    try:
        found = recording.read(path)
    except QclimbError as error:
        raise SimulationError(str(error)) from None
    said = FOLDER / f"{name}-{depth}-{trees}-{found.digest()[:16]}-{_rules()}.npz"
    if not said.exists():
        _foretell(path, depth, trees, said)
    with np.load(said) as foretold:
        first = int(foretold["first"])
        lower, upper, forecast = (foretold[key] for key in ("lower_bytes", "upper_bytes", "forecast_bytes"))
        thresholds = tuple(int(value) for value in foretold["threshold_bytes"])
    ends = [np.array([str(address) for address in found.texts[key][first:]]) for key in ("local_addr", "peer_addr")]
    _, number = np.unique(np.concatenate(ends), return_inverse=True)
    source, target = np.split(number.astype(np.int64), 2)
    return Recorded(
        name,
        found.numbers["start_ns"][first:],
        found.numbers["size_bytes"][first:],
        source,
        target,
        lower,
        upper,
        forecast,
        # A recording may name flows whose rest was taken for another flow (lab/recordings/README.md).
        np.minimum(found.numbers["footprint_bytes"][first:], found.numbers["size_bytes"][first:]),
        thresholds,
    )


def _foretell(path: Path, depth: int, trees: int, said: Path) -> None:
    with whole(said) as part:
        words = ["model", "foretell", str(path), "--depth", str(depth), "--trees", str(trees), "-o", str(part)]
        command = [sys.executable, "-c", "from qclimb.cli import main; main()", *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            why = ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"]
            raise SimulationError(f"qclimb model foretell {path.name}: {why[-1]}")
