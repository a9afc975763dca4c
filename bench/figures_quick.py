"""What a look costs: CPU seconds of `qclimb figures PAGE --quick` with nothing kept from before, page by page.

    python bench/figures_quick.py [PAGE ...] > docs/figures/quick.json

All of it counts, its children too: Python's start, forests, engines, the plot. The clock does not matter. Each page is
drawn in a folder of its own that goes away; the engine is built before. What is measured goes to stderr as it comes.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "gnmi-models")]
COMMAND = "from lab.figures.cli import figures; figures()"


def cpu_seconds(page: str) -> float:
    """Of the command and its children. Raises: subprocess.CalledProcessError."""
    path = os.pathsep.join(sys.path[:2])
    with tempfile.TemporaryDirectory() as folder:
        before = os.times()
        subprocess.run(
            [sys.executable, "-c", COMMAND, page, "--quick", "--json"],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Measures the pages that were named, or all."""
    from lab.figures.book import PAGES
    from lab.sim.engine import program

    program()
    found = {}
    for page in sys.argv[1:] or PAGES:
        found[page] = round(cpu_seconds(page), 1)
        print(f"{page}: {found[page]} CPU s", file=sys.stderr, flush=True)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
