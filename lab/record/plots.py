"""Distributions of flow sizes: recordings beside what was published (Flux's as estimated)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from qclimb import recording

from lab.sizes import load_table

BESIDE = {
    "kmeans": "flux_kmeans_est_bytes",
    "pagerank": "flux_pagerank_est_bytes",
    "sgd": "flux_sgd_est_bytes",
    "web": "flux_web_server_est_bytes",
    "training": "flux_tensorflow_est_bytes",
    "kv": "homa_w1_fbkv_bytes",
}
"""Recorded traffic: published table. kv's is of values, not of flows."""


def sizes_of(paths: Sequence[Path]) -> dict[str, NDArray[np.float64]]:
    """Sizes in bytes by traffic; Spark's jobs each by itself."""
    found: dict[str, NDArray[np.float64]] = {}
    for path in paths:
        flows = recording.read(path)
        size = flows.numbers["size_bytes"].astype(np.float64)
        if not path.stem.startswith("spark"):
            found[path.stem] = size
            continue
        for task in ("kmeans", "pagerank", "sgd"):
            found[task] = size[flows.texts["task"] == task]
    return found


def draw(paths: Sequence[Path], output: Path) -> list[dict[str, object]]:
    """Draws all distributions into one picture, and returns a row of numbers a traffic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    traffics = sizes_of(paths)
    columns = max(-(-len(traffics) // 2), 1)
    size_inches = (3.6 * columns, 6)
    figure, axes = pyplot.subplots(
        2, columns, figsize=size_inches, sharex=True, sharey=True, layout="constrained", squeeze=False
    )
    rows: list[dict[str, object]] = []
    for (name, size), ax in zip(traffics.items(), axes.ravel(), strict=False):
        ax.step(
            np.sort(size), np.arange(1, len(size) + 1) / len(size), where="post", label=f"recorded, {len(size)} flows"
        )
        table = load_table(BESIDE[name]) if name in BESIDE else None
        row: dict[str, object] = {"traffic": name, "flows": len(size), "mean_bytes": float(size.mean())}
        row |= {f"p{int(100 * q)}": float(np.quantile(size, q)) for q in (0.1, 0.5, 0.9, 0.99)}
        row["small_share"] = float((size <= 1e5).mean())
        if table is not None:
            ax.plot(np.maximum(table.size_bytes, 1), table.share, "--", label=table.name.removesuffix("_bytes"))
            # The largest distance between the two distributions (Kolmogorov-Smirnov).
            grid = np.geomspace(1, 1e9, 2000)
            ours = np.searchsorted(np.sort(size), grid, side="right") / len(size)
            row["table"] = table.name
            row["table_p50"] = float(table.quantile(0.5))
            row["table_p90"] = float(table.quantile(0.9))
            row["table_small_share"] = float(np.interp(1e5, table.size_bytes, table.share))
            row["distance"] = float(np.abs(ours - np.interp(grid, table.size_bytes, table.share)).max())
        rows.append(row)
        ax.set_title(name)
        ax.set_xscale("log")
        ax.set_xlim(1, 1e9)
        ax.grid(alpha=0.3)
        ax.legend(fontsize=7, loc="lower right")
    for ax in axes.ravel()[len(traffics) :]:
        ax.set_axis_off()
    for ax in axes[-1]:
        ax.set_xlabel("flow size, bytes")
    for ax in axes[:, 0]:
        ax.set_ylabel("share of flows")
    figure.savefig(output, dpi=90)
    pyplot.close(figure)
    return rows
