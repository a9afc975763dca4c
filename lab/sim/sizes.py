"""Flow-size tables by name: the lab's own (lab/sizes/tables), and those that only simulations use (lab/sim/tables).

A table whose name ends in `_pkts` counts packets of 1,460 bytes (Homa's W5: 1,442); its sizes are turned into bytes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from lab.sim.errors import ExperimentError
from lab.sizes import SizeTable, load_table

PACKET_BYTES = {"homa_w5_dctcp_pkts": 1442}
GRID = 200_000


def table_names() -> list[str]:
    """All that can be named."""
    folders = (files("lab.sizes") / "tables", files("lab.sim") / "tables")
    return sorted({entry.name.removesuffix(".txt") for f in folders for entry in f.iterdir() if ".txt" in entry.name})


@cache
def _named(name: str) -> SizeTable:
    path = files("lab.sim") / "tables" / f"{name}.txt"
    if not path.is_file():
        return load_table(name)
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = np.array([[float(cell) for cell in line.split()] for line in lines if line and not line.startswith("#")])
    unit = PACKET_BYTES.get(name, 1460) if name.endswith("_pkts") else 1
    source = " ".join(line.removeprefix("# source:").strip() for line in lines if line.startswith("# source:"))
    return SizeTable(name, rows[:, 0] * unit, rows[:, 1], source)


def size_table(table: str | SizeTable) -> SizeTable:
    """The table, by name where it is a name. Raises: ExperimentError."""
    if isinstance(table, SizeTable):
        return table
    if table not in table_names():
        raise ExperimentError(f"workload.sizes is {table!r}, expected one of {', '.join(table_names())}")
    return _named(table)


def mean_wire_bytes(table: SizeTable, payload_bytes: int, header_bytes: int) -> float:
    """Of a flow: its bytes and a header for each packet, under linear interpolation."""
    size = table.quantile((np.arange(GRID) + 0.5) / GRID)
    return table.mean_bytes() + header_bytes * float(np.ceil(np.maximum(size, 1) / payload_bytes).mean())
