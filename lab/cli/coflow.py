"""`qclimb lab coflow`: a coflow trace under one or more policies, rate by rate. Heavy imports wait until needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from qclimb.options import Refused

EXAMPLE = """\b
Example:
  qclimb lab coflow FB2010-1Hr-150-0.txt
  qclimb lab coflow trace.txt --policy fair --policy varys --policy optax-varys
  qclimb lab coflow trace.txt --policy aalo --gbps 10 --json
"""
POLICY = """fair, fifo, shortest, varys, aalo; priority or optax (small coflows first), alone or joined: optax-varys,
optax-aalo; aalo-at-once has a coordinator that takes no time. Repeat at will; a wrong name is answered by all."""


@click.command(epilog=EXAMPLE)
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--policy", "policies", multiple=True, default=("fair", "varys", "aalo", "optax-varys"), help=POLICY)
@click.option("--gbps", default=1.0, show_default=True, help="Gb/s of each port, a rack's or a host's, each way.")
@click.option(
    "--flow-ends-ms",
    default=1000.0,
    show_default=True,
    help="Rates are set anew when a coflow begins or ends, and at flows' ends at most so often; 0: at each. "
    "Varys never does that.",
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def coflow(trace: Path, policies: tuple[str, ...], gbps: float, flow_ends_ms: float, as_json: bool) -> None:
    """Simulate coflow schedulers on a trace.

    Tells coflow completion times (CCT). TRACE has coflow-benchmark's format: racks and coflows; then, a coflow a line,
    its number, arrival in ms, mappers and their racks, reducers and rack:MB of each.
    """
    from lab.sim import SimulationError

    try:
        rows = _rows(trace, policies, gbps, flow_ends_ms)
    except SimulationError as error:
        raise Refused(str(error)) from None
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        _show(trace, rows)


def _rows(trace: Path, policies: tuple[str, ...], gbps: float, flow_ends_ms: float) -> list[dict[str, Any]]:
    """A row a policy. Raises: SimulationError."""
    import numpy as np

    from lab.sim.coflow import CoflowExperiment, read_trace, run_coflows
    from lab.sim.coflow.experiment import policy_named
    from lab.sim.errors import ExperimentError

    wanted = [(name, policy_named(name)) for name in policies]
    if not 0 < gbps < 1e6:
        raise ExperimentError(f"gbps is {gbps}, expected above 0, below 1000000")
    coflows = read_trace(trace)
    small, rows = coflows.largest_bytes <= 1 << 20, []
    for name, policy in wanted:
        at = None if policy.large in ("varys", "deadlines") else flow_ends_ms
        found = run_coflows(CoflowExperiment(coflows, policy, round(gbps * 1e9), at))

        def mean(chosen: Any, values: Any) -> float | None:
            return float(np.mean(values[chosen])) if chosen.any() else None

        rows.append(
            {
                "policy": name,
                "coflows": len(found.cct_s),
                "flows": len(found.flow_end_s),
                "cct_mean_s": float(found.cct_s.mean()),
                "cct_p95_s": float(np.quantile(found.cct_s, 0.95)),
                "cct_small_mean_s": mean(small, found.cct_s),
                "cct_other_mean_s": mean(~small, found.cct_s),
                "slowdown_mean": float(found.slowdown.mean()),
                "cpu_seconds": found.counters["cpu_seconds"],
            }
        )
    return rows


def _show(trace: Path, rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from lab.experiment.terminal import console_for_tables, print_table

    table = Table(
        title=f"{trace.name}: {rows[0]['coflows']:,} coflows, {rows[0]['flows']:,} flows", title_justify="left"
    )
    table.add_column("policy")
    names = ("CCT mean s", "p95 s", "small mean s", "others mean s", "slowdown", "CPU s")
    for name in names:
        table.add_column(name, justify="right")
    keys = ("cct_mean_s", "cct_p95_s", "cct_small_mean_s", "cct_other_mean_s", "slowdown_mean", "cpu_seconds")
    for row in rows:
        table.add_row(row["policy"], *("" if row[key] is None else f"{row[key]:.3f}" for key in keys))
    console = console_for_tables()
    print_table(console, table)
    console.print(
        "CCT: a coflow's start to its last flow's end; slowdown: over what its fullest port needs for it alone; small: "
        "every flow up to 1 MB.",
        highlight=False,
    )
