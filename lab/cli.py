"""The command `qclimb lab`: the fabric by hand. Sub-commands that run workloads are in their own files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from lab.bounds.cli import bounds
from lab.drift.cli import drift
from lab.fabric import Fabric, FabricError, Topology, guard, state
from lab.record.cli import record
from lab.sim_cli import sim
from lab.workload.cli import demo, run, trace

P = ParamSpec("P")
T = TypeVar("T")
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 120}

prefix_option = click.option("--prefix", default="qc", show_default=True, help="Which fabric; names its namespaces.")
json_option = click.option("--json", "as_json", is_flag=True, help="For programs.")


def fail(text: str) -> NoReturn:
    """One sentence on stderr, exit 2."""
    click.echo(f"qclimb lab: {text}", err=True)
    sys.exit(2)


def sentences(function: Callable[P, T]) -> Callable[P, T]:
    """FabricError -> one sentence, exit 2."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except FabricError as error:
            fail(str(error))

    return run


EXAMPLE = """\b
Example:
  sudo qclimb lab up
  sudo qclimb lab exec h1 -- curl -s http://198.19.2.1/
  sudo qclimb lab down
"""
EXEC_EXAMPLE = """\b
Example:
  sudo qclimb lab exec h1 -- curl -s http://198.19.2.1/
  sudo qclimb lab exec --bare l1 -- tc -s class show dev Ethernet0
"""


@click.group(context_settings=SETTINGS, epilog=EXAMPLE)
def lab() -> None:
    """A leaf-spine fabric: of namespaces (root only), or simulated."""


@lab.command(epilog="\b\nExample:\n  sudo qclimb lab up --no-control --hosts-per-leaf 2")
@prefix_option
@click.option("--no-control", is_flag=True, help="Links and queues only: no redis, switchd, orchestrator, hostd.")
@click.option("--leaves", default=Topology.leaves, show_default=True, help="Leaf switches.")
@click.option(
    "--spines", default=Topology.spines, show_default=True, help="Spine switches; each leaf has a link to each."
)
@click.option("--hosts-per-leaf", default=Topology.hosts_per_leaf, show_default=True, help="Hosts at each leaf.")
@click.option(
    "--host-mbps", default=Topology.host_rate_bps // 1_000_000, show_default=True, help="Mb/s of a host's port."
)
@click.option(
    "--uplink-mbps",
    default=Topology.uplink_rate_bps // 1_000_000,
    show_default=True,
    help="Mb/s of a link between leaf and spine.",
)
@click.option("--buffer-bytes", default=Topology.buffer_bytes, show_default=True, help="Buffer of each switch port.")
@click.option(
    "--calibrate/--no-calibrate", default=True, show_default=True, help="Check that a bulk flow gets its rate."
)
@json_option
@sentences
def up(
    prefix: str,
    no_control: bool,
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    host_mbps: int,
    uplink_mbps: int,
    buffer_bytes: int,
    calibrate: bool,
    as_json: bool,
) -> None:
    """Bring the fabric up and leave it up.

    What was there under the prefix goes first.
    """
    rates = host_mbps * 1_000_000, uplink_mbps * 1_000_000
    topology = Topology(leaves, spines, hosts_per_leaf, *rates, buffer_bytes)
    from lab.fabric.control import start_control

    control = None if no_control else partial(start_control, serve=())  # as an operator runs it
    with progress() as say, Fabric(topology, prefix, control=control, progress=say) as fabric:
        checks = []
        if calibrate:
            say("calibration: one bulk flow between racks")
            checks.append(guard.calibrate(fabric))
        verdict = guard.Verdict((*checks, guard.occupancy(fabric)))
        fabric.keep()
    if as_json:
        click.echo(json.dumps({**described(fabric), "guard": verdict.to_json()}, indent=1))
        return
    for note in fabric.notes:
        click.echo(f"note: {note}")
    for line in verdict.lines():
        click.echo(line)
    click.echo(f"up: {len(fabric.hosts)} hosts, {len(topology.switches)} switches; state in {fabric.directory}")
    click.echo(f"  hosts: {', '.join(f'{name} {address}' for name, address in fabric.hosts.items())}")
    if rest := fabric.record.control.get("rest"):
        click.echo(f"  REST: ip netns exec {fabric.netns('mgmt')} curl --cacert {fabric.record.control['ca']} \\")
        click.echo(f'    -H "Authorization: Bearer $(cat {fabric.record.control["token_file"]})" {rest}/v1/state')
    suffix = "" if prefix == "qc" else f" --prefix {prefix}"
    click.echo(f"  qclimb lab exec{suffix} h1 -- COMMAND; qclimb lab show{suffix} l1; qclimb lab down{suffix}")


def described(fabric: Fabric) -> dict[str, Any]:
    """A fabric for programs."""
    record = fabric.record
    return {
        "prefix": fabric.prefix,
        "hosts": fabric.hosts,
        "switches": fabric.topology.switches,
        "state": str(fabric.directory),
        "shaper": record.shaper,
        "shared_buffer": record.shared_buffer,
        "congestion_control": record.congestion_control,
        "notes": fabric.notes,
        "control": record.control,
    }


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A spinner that says what is going on, on stderr; plain lines where there is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: console.print(text, highlight=False)
        return
    with console.status("starting") as status:

        def say(text: str) -> None:
            console.print(text, highlight=False, style="dim")
            status.update(text)

        yield say


@lab.command(epilog="\b\nExample:\n  sudo qclimb lab down\n  sudo qclimb lab down --all")
@prefix_option
@click.option("--all", "everything", is_flag=True, help="Every fabric on this machine, whoever owns it.")
@sentences
def down(prefix: str, everything: bool) -> None:
    """Remove a fabric, also what a killed run left behind.

    Again is harmless.
    """
    if os.geteuid() != 0:
        raise FabricError("removing a fabric needs root; run it with sudo")
    for name in state.prefixes() if everything else [prefix]:
        with state.locked(name):
            found = state.take_down(name)
        click.echo(f"{name}: removed" if found else f"{name}: nothing there")


@lab.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, **SETTINGS},
    epilog=EXEC_EXAMPLE,
)
@prefix_option
@click.option("--bare", is_flag=True, help="Without libqclimb.so.")
@click.argument("node")
@click.argument("command", nargs=-1, required=True)
@sentences
def exec_(prefix: str, bare: bool, node: str, command: tuple[str, ...]) -> None:
    """Run COMMAND in NODE.

    On a host under libqclimb.so and with the host's QCLIMB_RUN.
    """
    fabric = attached(prefix)
    argv = fabric.exec_argv(node, command[1:] if command[0] == "--" else command)
    if fabric.topology.nodes[node].role != "host":
        os.execvp(argv[0], argv)
    env = fabric.host_env(node)
    if not bare:
        # Set behind `ip`, so that only the command itself runs under it.
        shim = fabric.host_env(node, shim=True)["LD_PRELOAD"]
        argv = fabric.exec_argv(node, ["env", f"LD_PRELOAD={shim}", *argv[4:]])
    os.execvpe(argv[0], argv, env)


def attached(prefix: str) -> Fabric:
    """A fabric that is up. Raises: FabricError."""
    if os.geteuid() != 0:
        raise FabricError("entering a fabric's network namespaces needs root; run it with sudo")
    return Fabric.attach(prefix)


@lab.command(epilog="\b\nExample:\n  sudo qclimb lab show l1\n  sudo qclimb lab show l1 counters")
@prefix_option
@json_option
@click.argument("switch")
@click.argument("what", default="status", type=click.Choice(["status", "classes", "paths", "counters"]))
@sentences
def show(prefix: str, as_json: bool, switch: str, what: str) -> None:
    """What SWITCH's `show qclimb` says.

    By the plug-in that a SONiC switch would run. WHAT of it: the status unless told.
    """
    fabric = attached(prefix)
    if switch not in fabric.topology.switches:
        raise FabricError(f"there is no switch {switch!r}; expected one of {', '.join(fabric.topology.switches)}")
    from lab.fabric.control import redis_socket

    socket = redis_socket(fabric, switch)
    if not socket.exists():
        raise FabricError(f"the fabric {prefix} is up without a control plane; `qclimb lab up` brings one up")
    argv = [sys.executable, "-m", "switchd.show", "--redis", f"unix://{socket}", what] + ["--json"] * as_json
    sys.exit(subprocess.run(fabric.exec_argv(switch, argv), check=False).returncode)


run.add_command(bounds)
run.add_command(drift)
for _command in (demo, record, run, sim, trace):
    lab.add_command(_command)
