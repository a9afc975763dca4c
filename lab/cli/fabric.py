"""`qclimb lab up`, `down`, `exec` and `show`: the fabric by hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import click
from qclimb.options import Refused

from lab.cli.errors import require_root
from lab.fabric import Fabric, FabricError, Topology, guard, state

P = ParamSpec("P")
T = TypeVar("T")

prefix_option = click.option("--prefix", default="qc", show_default=True, help="Which fabric; names its namespaces.")
json_option = click.option("--json", "as_json", is_flag=True, help="For programs.")


def fail(text: str) -> NoReturn:
    """One sentence on stderr, exit 2."""
    raise Refused(text)


def sentences(function: Callable[P, T]) -> Callable[P, T]:
    """FabricError -> one sentence, exit 2."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except FabricError as error:
            fail(str(error))

    return run


EXEC_EXAMPLE = """\b
Example:
  sudo qclimb lab exec h5 -- python3 -m http.server 80 &
  sudo qclimb lab exec h1 -- curl -s http://198.19.2.1/
  sudo qclimb lab exec --bare l1 -- tc -s class show dev Ethernet0
"""


@click.command(
    epilog="\b\nExample:\n  sudo qclimb lab up --no-control --hosts-per-leaf 2\n"
    "  sudo qclimb lab up --spines 4 --queues 2"
)
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
@click.option(
    "--queues",
    type=click.IntRange(2, 8),
    help="Pin priorities to the spines, with so many queues a port (Big-Spine); default: no revision is rolled out.",
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
    queues: int | None,
    buffer_bytes: int,
    calibrate: bool,
    as_json: bool,
) -> None:
    """Bring the fabric up and leave it up.

    What was there under the prefix goes first.
    """
    require_root()
    rates = host_mbps * 1_000_000, uplink_mbps * 1_000_000
    topology = Topology(leaves, spines, hosts_per_leaf, *rates, buffer_bytes)
    from lab.control.plane import start_control
    from lab.control.spines import pin

    if queues and (no_control or spines < 2):
        raise FabricError("--queues pins priorities to spines: expected a control plane and at least two --spines")
    control = None if no_control else partial(start_control, serve=())  # as an operator runs it
    with progress() as say, Fabric(topology, prefix, control=control, progress=say) as fabric:
        checks = []
        if calibrate:
            say("calibration: one bulk flow between racks")
            checks.append(guard.calibrate(fabric))
        verdict = guard.Verdict((*checks, guard.occupancy(fabric)))
        if queues:
            say(f"a revision with {spines} spines and {queues} queues")
            pin(fabric, queues)
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
    lab = f"{Path(sys.executable).with_name('qclimb')} lab"  # as root can say it: its PATH need not have the command
    click.echo(f"  {lab} exec{suffix} h1 -- hostname; {lab} show{suffix} l1; {lab} down{suffix}")


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


@click.command(epilog="\b\nExample:\n  sudo qclimb lab down\n  sudo qclimb lab down --all")
@prefix_option
@click.option("--all", "everything", is_flag=True, help="Every fabric on this machine, whoever owns it.")
@click.option("--json", "as_json", is_flag=True, help="For programs: whether there was anything, by prefix.")
@sentences
def down(prefix: str, everything: bool, as_json: bool) -> None:
    """Remove a fabric, also what a killed run left behind.

    Again is harmless.
    """
    if os.geteuid() != 0:
        raise FabricError("removing a fabric needs root; run it with sudo")
    removed = {}
    for name in state.prefixes() if everything else [prefix]:
        with state.locked(name):
            removed[name] = bool(state.take_down(name))
        if not as_json:
            click.echo(f"{name}: removed" if removed[name] else f"{name}: nothing there")
    if as_json:
        click.echo(json.dumps(removed))


@click.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
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
    prefix, bare, command = after_node(prefix, bare, command)
    fabric = attached(prefix)
    argv = fabric.exec_argv(node, command)
    if fabric.topology.nodes[node].role != "host":
        os.execvp(argv[0], argv)
    if not bare:
        argv = fabric.scheduled(node, command)
    os.execvpe(argv[0], argv, fabric.host_env(node))


def after_node(prefix: str, bare: bool, words: tuple[str, ...]) -> tuple[str, bool, tuple[str, ...]]:
    """Options of ours that stand between NODE and COMMAND count as if they stood before; then the command.

    Raises: FabricError: another option, or no command.
    """
    rest = list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word == "--bare":
            bare = True
        elif word.startswith("--prefix="):
            prefix = word.removeprefix("--prefix=")
        elif word == "--prefix" and rest:
            prefix = rest.pop(0)
        else:
            raise FabricError(f"there is no option {word!r}; expected --bare, --prefix PREFIX, or -- and a command")
    if not rest:
        raise FabricError("there is no command after NODE; expected one, as in `qclimb lab exec h1 -- hostname`")
    return prefix, bare, tuple(rest)


def attached(prefix: str) -> Fabric:
    """A fabric that is up. Raises: FabricError."""
    if os.geteuid() != 0:
        raise FabricError("entering a fabric's network namespaces needs root; run it with sudo")
    return Fabric.attach(prefix)


SHOWN = ["status", "ports", "policy", "queues", "classes", "paths", "counters"]


@click.command(epilog="\b\nExample:\n  sudo qclimb lab show l1\n  sudo qclimb lab show l1 counters")
@prefix_option
@json_option
@click.argument("switch")
@click.argument("what", default="status", type=click.Choice(SHOWN))
@sentences
def show(prefix: str, as_json: bool, switch: str, what: str) -> None:
    """What SWITCH's `show qclimb` says.

    By the plug-in that a SONiC switch would run. WHAT of it: the status unless told.
    """
    fabric = attached(prefix)
    if switch not in fabric.topology.switches:
        raise FabricError(f"there is no switch {switch!r}; expected one of {', '.join(fabric.topology.switches)}")
    from lab.control.plane import redis_socket

    socket = redis_socket(fabric, switch)
    if not socket.exists():
        raise FabricError(f"the fabric {prefix} is up without a control plane; `qclimb lab up` brings one up")
    argv = [sys.executable, "-m", "switchd.show", "--redis", f"unix://{socket}", what] + ["--json"] * as_json
    sys.exit(subprocess.run(fabric.exec_argv(switch, argv), check=False).returncode)
