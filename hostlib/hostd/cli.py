"""The command `qclimb-hostd`."""

import json
import logging
import os
import sys
import time
from dataclasses import asdict
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

import click
from qclimb.errors import QclimbError
from qclimb.options import Finite, Refused, config_option, version_option

from hostlib.hostd.place import RUN_DIR, Place
from hostlib.hostd.scope import NO_DEVICE, Scope

EXAMPLE = """\b
Example:
  qclimb-hostd --name h1 --orchestrator https://198.18.0.1:8443 \\
      --ca /etc/qclimb/ca.pem --token-file /etc/qclimb/token
  qclimb-hostd status
"""


def _is_no_more(_: click.Context, option: click.Parameter, value: object) -> None:
    """Settings of an older version must not keep this one from its start after an upgrade."""
    if value:
        click.echo(f"Warning: {option.opts[0]} is ignored, expected no such setting: hostd changes no route", err=True)


@click.group(
    invoke_without_command=True,
    epilog=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@version_option
@config_option
@click.option("--name", help="This host's name at the orchestrator.")
@click.option("--orchestrator", metavar="URL", help="https://ADDRESS:PORT; http:// to a loopback address only.")
@click.option(
    "--ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Certificates (PEM) to trust; the system's without it.",
)
@click.option("--token-file", type=click.Path(path_type=Path), help="File of mode 0600 with the bearer token.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="QCLIMB_RUN",
    default=RUN_DIR,
    show_default=True,
    help="Where shims look for policy and model, and leave records.",
)
@click.option(
    "--poll-interval-s",
    type=Finite(min=0.05, max=3600),
    default=10.0,
    show_default=True,
    help="Seconds from one delivery to the orchestrator to the next, a tenth more or less; its answer names the "
    "policy in force, which is then asked for where it is another one.",
)
@click.option("--quickack-dev", multiple=True, hidden=True, expose_value=False, callback=_is_no_more)
@click.option(
    "--tagger-dev",
    metavar="DEV",
    multiple=True,
    help="Mark packets in the kernel as they leave by this device (root; docs/design/tagger.md). With --kernel, "
    f"`{NO_DEVICE}` marks by the sockets' own DSCP, as is done where no device can be had.",
)
@click.option(
    "--kernel",
    metavar="CGROUP",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Find and mark the flows of all programs in this directory of cgroup v2, in the kernel (root; README).",
)
@click.option(
    "--kernel-port",
    metavar="PORT",
    multiple=True,
    type=click.IntRange(1, 65535),
    help="Of those, only connections whose listening side has this port.",
)
@click.option(
    "--fabric-net",
    metavar="PREFIX",
    multiple=True,
    help="Where the fabric's hosts are, as 198.18.0.0/15: connections to elsewhere are not measured. Default: any.",
)
@click.pass_context
def main(
    context: click.Context,
    name: str | None,
    orchestrator: str | None,
    ca: Path | None,
    token_file: Path | None,
    run_dir: Path,
    poll_interval_s: float,
    tagger_dev: tuple[str, ...],
    kernel: tuple[Path, ...],
    kernel_port: tuple[int, ...],
    fabric_net: tuple[str, ...],
) -> None:
    """Keep this host's policy and model, and bring its flow records to the orchestrator."""
    if context.invoked_subcommand is not None:
        context.obj = run_dir
        return
    for option, value in (("--name", name), ("--orchestrator", orchestrator), ("--token-file", token_file)):
        if value is None:
            raise click.UsageError(f"{option} is missing; expected it to serve (or the sub-command `status`)")
    if kernel_port and not kernel:
        raise click.UsageError("--kernel-port names ports of no cgroup; expected --kernel CGROUP beside it")
    if NO_DEVICE in tagger_dev and (tagger_dev != (NO_DEVICE,) or not kernel):
        raise click.UsageError(f"--tagger-dev {NO_DEVICE}: expected --kernel CGROUP beside it, and no other device")
    assert name is not None and orchestrator is not None and token_file is not None
    networks = tuple(_network(each) for each in fabric_net)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        serve(
            *(name, orchestrator, ca, token_file, run_dir, poll_interval_s),
            *(tagger_dev, Scope(kernel, kernel_port), networks),
        )
    except QclimbError as error:
        raise Refused(str(error)) from None


def serve(
    name: str,
    url: str,
    ca: Path | None,
    token_file: Path,
    run_dir: Path,
    poll_interval_s: float,
    tagger_devices: tuple[str, ...],
    scope: Scope,
    networks: tuple[IPv4Network | IPv6Network, ...] = (),
) -> None:
    """Runs the daemon until SIGTERM."""
    # Imported here, for `status` and `--help` need neither TLS nor sockets.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nothing here needs
    from hostlib.hostd.daemon import Daemon
    from hostlib.hostd.kernel import KernelMode
    from hostlib.hostd.orchestrator import Orchestrator
    from hostlib.hostd.state import State
    from hostlib.hostd.tagger import Tagger

    door = Orchestrator(url, name, token_file, ca)
    place = Place(run_dir)
    place.prepare()
    lock = place.take()
    state = State(name=name, orchestrator=url, pid=os.getpid(), started_at=time.time(), poll_interval_s=poll_interval_s)
    try:
        tagger = Tagger(place, tagger_devices, cgroups=scope.cgroups)
        Daemon(place, door, state, tagger, KernelMode(place, scope, tagger), networks).run()
    finally:
        os.close(lock)


def _network(prefix: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(prefix)
    except ValueError as error:
        raise click.BadParameter(f"{error}, expected a prefix as 198.18.0.0/15", param_hint="--fabric-net") from None


@main.command(epilog="Example: qclimb-hostd status --run-dir /run/qclimb --json")
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="Instead of the one before `status`.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--programs", "with_programs", is_flag=True, help="Also each program that holds a TCP socket.")
@click.option("--lengths", "with_lengths", is_flag=True, help="Also how each service's messages tell their size.")
@click.pass_obj
def status(group_run_dir: Path, run_dir: Path | None, as_json: bool, with_programs: bool, with_lengths: bool) -> None:
    """Show policy, model, records, drops and errors.

    Of the hostd of this host; exit 1 when none runs.
    """
    from qclimb.text import printable

    from hostlib.hostd.lengths import lines
    from hostlib.hostd.programs import programs
    from hostlib.hostd.state import as_table, read_state

    place = Place(run_dir or group_run_dir)
    try:
        found = read_state(place.status)
    except QclimbError as error:
        raise Refused(str(error)) from None
    found["runs"] = place.is_served()
    served = programs(tuple(map(Path, found["kernel_cgroups"]))) if with_programs else []
    if with_programs:
        found["programs"] = [asdict(program) for program in served]
    if as_json:
        click.echo(json.dumps(found, indent=1))
        sys.exit(1 if found["runs"] is False else 0)
    table = as_table(found, time.time()).split("\n")
    if with_lengths:
        table += lines(found["lengths"])
    for program in served:
        pids = " ".join(map(str, program.pids[:4])) + (" ..." if len(program.pids) > 4 else "")
        table.append(f"{program.name:<16} {program.by:<10}  {program.why} (pid {pids})")
    click.echo("\n".join(map(printable, table)))  # names in it are of any local user's choice
    sys.exit(1 if found["runs"] is False else 0)


@main.command("tagger-off", epilog="Example: qclimb-hostd tagger-off --run-dir /run/qclimb")
@click.option("--run-dir", type=click.Path(path_type=Path, file_okay=False), help="Instead of the one before it.")
@click.pass_obj
def tagger_off(group_run_dir: Path, run_dir: Path | None) -> None:
    """Take the tagger from this host's devices.

    It stays there when hostd stops, and only goes by this.
    """
    from hostlib.hostd import kernel, tagger

    place = Place(run_dir or group_run_dir)
    if place.is_served():
        raise Refused("a hostd runs and would load it again; expected it stopped first")
    try:
        had_kernel = kernel.remove(place.directory / "bpf")
        found = "the kernel mode and the tagger were" if had_kernel else "the tagger was"
        click.echo(f"{found} taken away" if tagger.remove(place) else "there was no tagger")
    except QclimbError as error:
        raise Refused(str(error)) from None


if __name__ == "__main__":
    main()
