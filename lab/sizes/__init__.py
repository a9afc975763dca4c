"""Flow-size distributions as published, sampled under linear interpolation of their cumulative tables.

A table's text file has its source in `#` lines, then `value cumulative_probability` a line. *Linear interpolation*
means that sizes are uniform between two listed values (the reading of TrafficGenerator and HPCC); as a step function
the same web-search table has a mean 42 % larger, so a mean without the convention says nothing.
"""

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class SizeTable:
    """A cumulative distribution of flow sizes: ascending `size_bytes`, non-decreasing `share` from 0 (or the first)
    to 1."""

    name: str
    size_bytes: NDArray[np.float64] = field(repr=False)
    share: NDArray[np.float64] = field(repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        size, share = self.size_bytes, self.share
        if not (size.ndim == 1 and size.shape == share.shape and size.size >= 2):
            raise ValueError(
                f"table {self.name}: needs two columns of at least two rows, has {size.shape}, {share.shape}"
            )
        if not (size[0] >= 0 and np.all(np.diff(size) >= 0)):
            raise ValueError(f"table {self.name}: sizes must ascend from 0 or more")
        if not (share[0] >= 0 and np.all(np.diff(share) >= 0)):
            raise ValueError(f"table {self.name}: shares must not fall")
        # A table may end a little short of 1: the flows beyond have its last size.
        if not abs(share[-1] - 1) < 2e-3:
            raise ValueError(f"table {self.name}: the last share is {share[-1]}, not 1")

    def quantile(self, u: ArrayLike) -> NDArray[np.float64]:
        """Sizes in bytes below which the shares u of flows lie; u in [0, 1], any shape."""
        return np.asarray(np.interp(np.asarray(u, float), self.share, self.size_bytes))

    def mean_bytes(self, lowest: float = 0.0, highest: float = 1.0) -> float:
        """Mean size of the flows between two shares, exact under linear interpolation."""
        inner = self.share[(self.share > lowest) & (self.share < highest)]
        at = np.concatenate(([lowest], np.repeat(inner, 2), [highest]))
        # A vertical step in the table has two sizes at one share: take the one that belongs to each side.
        size = np.empty_like(at)
        size[0::2] = self._edges(at[0::2], "right")
        size[1::2] = self._edges(at[1::2], "left")
        widths = at[1::2] - at[0::2]
        return float(np.sum(widths * (size[0::2] + size[1::2]) / 2) / (highest - lowest))

    def _edges(self, u: NDArray[np.float64], side: str) -> NDArray[np.float64]:
        """Sizes at the shares u, as seen from the flows just right or just left of each."""
        first, after = (np.searchsorted(self.share, u, end) for end in ("left", "right"))
        row = after - 1 if side == "right" else np.minimum(first, self.share.size - 1)
        return np.where(first < after, self.size_bytes[row], self.quantile(u))


@cache
def load_table(name: str) -> SizeTable:
    """One of the tables shipped in `lab/sizes/tables`, by file name without `.txt`."""
    folder = files(__package__) / "tables"
    path = folder / f"{name}.txt"
    if not path.is_file():
        known = sorted(entry.name.removesuffix(".txt") for entry in folder.iterdir() if entry.name.endswith(".txt"))
        raise ValueError(f"no flow-size table {name!r}; known: {', '.join(known)}")
    lines = path.read_text(encoding="utf-8").splitlines()
    source = " ".join(line.removeprefix("# source:").strip() for line in lines if line.startswith("# source:"))
    rows = np.array([[float(cell) for cell in line.split()] for line in lines if line and not line.startswith("#")])
    return SizeTable(name, rows[:, 0], rows[:, 1], source)
