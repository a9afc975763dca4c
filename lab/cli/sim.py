"""`qclimb lab sim`: one run of the simulator from the command line. Heavy imports, `lab.sim` too, wait until needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from qclimb.options import BufferShares, Refused

if TYPE_CHECKING:
    from lab.sim import Experiment, Results

EXAMPLE = """\b
Example:
  qclimb lab sim --scheme pfabric --load 0.6 --flows 10000
  qclimb lab sim --sizes datamining_bytes --leaves 4 --hosts-per-leaf 8 --json
  qclimb lab sim --set max_window=20 --set timeout_us=30
  qclimb lab sim --list flows.txt.gz --routing spray
"""
LIST = """Flows from a file, in place of a table's, one a line, .gz too: start_us size_bytes source target; or YAPS's
nine columns: id, start in s, 0, 0, packets of 1,460 bytes, 0, 0, source, destination."""

SHARES = """SONiC's dynamic_th of each queue, served first to last, or one for all: 0,0,0,0,0,0,0,3. A queue may hold
2^TH times what is free of its port's buffer."""


@click.command(epilog=EXAMPLE)
@click.option(
    "--scheme",
    default="pfabric",
    show_default=True,
    help="pfabric, pias, qclimb, homa, tcp, dctcp, deadline, pdq, rcp, d3, optax or a variant; a wrong name is "
    "answered by all.",
)
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="A setting of the scheme; repeat at will.")
@click.option("--buffer-shares", type=BufferShares(), help=SHARES)
@click.option(
    "--sizes", default="websearch_bytes", show_default=True, help="Flow-size table; a wrong name is answered by all."
)
@click.option("--list", "flow_list", type=click.Path(path_type=Path), help=LIST)
@click.option("--load", default=0.6, show_default=True, help="Offered bytes with headers over the hosts' links.")
@click.option("--flows", type=int, help="How many; 10,000, or all of a list, unless given.")
@click.option(
    "--seed", default=1, show_default=True, help="Of arrivals, sizes, forecasts and paths; equal seeds, equal results."
)
@click.option(
    "--forecast",
    type=click.Choice(["nothing", "exact", "leaves"]),
    default="leaves",
    show_default=True,
    help="What hosts know of sizes: nothing, the size itself, or bounds as leaves of a forest give them.",
)
@click.option("--routing", default="ecmp", show_default=True, help="ecmp, spray or priority (Big-Spine).")
@click.option("--leaves", default=9, show_default=True, help="Leaf switches.")
@click.option("--spines", default=4, show_default=True, help="Spine switches; each leaf has a link to each.")
@click.option("--hosts-per-leaf", default=16, show_default=True, help="Hosts at each leaf.")
@click.option("--host-gbps", default=10.0, show_default=True, help="Gb/s of a host's link.")
@click.option("--uplink-gbps", default=40.0, show_default=True, help="Gb/s of a link between leaf and spine.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def sim(context: click.Context, /, as_json: bool, **options: Any) -> None:
    """Simulate a fabric packet by packet.

    Tells flow completion times of one scheme.
    """
    from lab.sim import SimulationError, run

    try:
        if options["flow_list"] is not None:
            _refuse_drawn(context)
        experiment = experiment_of(**options)
        if note := experiment.overload():
            click.echo(f"qclimb lab sim: note: {note}", err=True)
        results = run(experiment) if as_json else _with_progress(experiment)
    except SimulationError as error:
        raise Refused(str(error)) from None
    if as_json:
        click.echo(json.dumps(_for_programs(experiment, results), indent=1))
    else:
        _show(experiment, results)


def _refuse_drawn(context: click.Context) -> None:
    """Words that say how flows are drawn say nothing of a list's. Raises: ExperimentError."""
    from lab.sim.errors import ExperimentError

    for name in ("sizes", "load", "forecast"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise ExperimentError(
                f"{name} is {context.params[name]}, but --list is given, whose flows have it already: leave one out"
            )


def experiment_of(
    scheme: str,
    changes: tuple[str, ...],
    buffer_shares: tuple[int, ...] | None,
    sizes: str,
    flow_list: Path | None,
    load: float,
    flows: int | None,
    seed: int,
    forecast: str,
    routing: Any,
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    host_gbps: float,
    uplink_gbps: float,
) -> Experiment:
    """What the options say. Raises: ExperimentError."""
    from lab.sim import Exact, Experiment, FlowList, Leaves, Nothing, Topology, Workload
    from lab.sim.flowlist import read_flow_list
    from lab.sim.forecast import Forecast
    from lab.sim.schemes import changed, scheme_named, with_shares

    workload: Workload | FlowList
    if flow_list is not None:
        workload = read_flow_list(flow_list)
    else:
        forecasts: dict[str, Forecast] = {"nothing": Nothing(), "exact": Exact(), "leaves": Leaves()}
        workload = Workload(sizes, forecast=forecasts[forecast])
    wanted = changed(scheme_named(scheme), changes)
    if buffer_shares is not None:
        wanted = with_shares(wanted, buffer_shares)
    rates = _bps("host_rate_bps", host_gbps), _bps("uplink_rate_bps", uplink_gbps)
    return Experiment(
        Topology(leaves, spines, hosts_per_leaf, *rates),
        wanted,
        workload,
        load=load,
        flows=flows,
        seed=seed,
        routing=routing,
    )


def _bps(name: str, gbps: float) -> int:
    from lab.sim.errors import ExperimentError

    if not 0 < gbps < 1e6:
        raise ExperimentError(f"topology.{name} is {gbps} Gb/s, expected above 0, below 1000000")
    return round(gbps * 1e9)


def _with_progress(experiment: Experiment) -> Results:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from lab.sim import run

    columns = (TextColumn("flows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("flows", total=experiment.count)
        return run(experiment, lambda over: bar.update(task, completed=over))


def _for_programs(experiment: Experiment, results: Results) -> dict[str, Any]:
    from lab.sim.schemes import described

    counters = {
        key: value.tolist() if hasattr(value, "tolist") else value for key, value in vars(results.counters).items()
    }
    classes = [
        {key: None if value != value else value for key, value in row.items()}  # JSON has no NaN
        for row in results.summary()
    ]
    note = experiment.overload()
    return {"scheme": described(experiment.scheme), "note": note, "classes": classes, "counters": counters}


def _microseconds(value: float) -> str:
    return f"{value:.1f}" if value < 10_000 else f"{value:.0f}"


def _show(experiment: Experiment, results: Results) -> None:
    from rich.table import Table

    from lab.experiment.terminal import console_for_tables, print_table
    from lab.sim import FlowList

    topology, counters = experiment.topology, results.counters
    what = (
        "a flow list" if isinstance(experiment.workload, FlowList) else f"load {experiment.load:g} of the hosts' links"
    )
    table = Table(
        title=f"{experiment.scheme.name}, {topology.hosts} hosts, {experiment.count} flows, {what}",
        title_justify="left",
    )
    names = ("flows", "FCT mean us", "FCT p99 us", "ACKed mean us", "ACKed p99 us", "slowdown", "p99")
    for name in (*names, "resent", "dropped", "timeouts"):
        table.add_column(name, justify="right")
    for row in results.summary():
        if not row["flows"]:
            continue
        keys = ["fct_mean_us", "fct_p99_us", "acked_mean_us", "acked_p99_us", "slowdown_mean", "slowdown_p99"]
        numbers = [_microseconds(row[key]) if key.endswith("_us") else f"{row[key]:.3f}" for key in keys]
        counts = [str(row[key]) for key in ("retransmissions", "drops", "timeouts")]
        table.add_row(f"{row['class']} {row['flows']}", *numbers, *counts)
    console = console_for_tables()
    print_table(console, table)
    speed = counters.delivered_packets / max(counters.cpu_seconds, 1e-9)
    console.print(
        "FCT: first byte at the sender to last byte at the receiver; ACKed: to the sender's last ACK, as ns-2 and YAPS "
        f"count. {counters.delivered_packets:,} data packets in "
        f"{counters.cpu_seconds:.1f} CPU s ({speed:,.0f} a second), {counters.peak_rss_kib / 1024:.0f} MB; at most "
        f"{counters.peak_flows} flows and {counters.peak_packets} packets at once.",
        highlight=False,
    )
