"""`config qclimb` for SONiC's `config`: copied onto the host (config/plugins/qclimb.py) and run by its Python.

So: only the standard library and click. What follows from an intent is computed in the container (`switchd.patch`);
SONiC's own patcher writes it, checks it by YANG, and finds in the end what it wrote.
"""

import subprocess
import sys
import tempfile
from typing import IO

import click

CONTAINER = "qclimb"
help_names = {"help_option_names": ["-h", "--help"]}


namespace_option = click.option("-n", "--namespace", metavar="NAME", help="Of several ASICs: asic0, asic1, ...")


def apply_patch(words: list[str], namespace: str | None, given: bytes = b"") -> None:
    """Patch CONFIG_DB with what the container makes of `words`; what went wrong is said, and the status 2."""
    words = [*words, *(["--namespace", namespace] if namespace else [])]
    try:
        made = subprocess.run(
            ["docker", "exec", "-i", CONTAINER, "python3", "-m", "switchd.patch", *words],
            input=given,
            capture_output=True,
            check=False,
        )
        if made.returncode:
            said = made.stderr.decode(errors="replace").strip().splitlines() or ["no word from the container"]
            click.echo(said[-1], err=True)
            sys.exit(2)
        if made.stdout.strip() == b"[]":
            click.echo("Nothing to change.")
            return
        with tempfile.NamedTemporaryFile(suffix=".json") as patch:
            patch.write(made.stdout)
            patch.flush()
            done = subprocess.run(["config", "apply-patch", patch.name], check=False)
    except OSError as error:
        click.echo(f"Error: {error.filename}: {error.strerror}", err=True)
        sys.exit(2)
    if done.returncode:
        sys.exit(done.returncode)


@click.group(name="qclimb", context_settings=help_names, epilog="Example: config qclimb apply intent.json")
def qclimb() -> None:
    """Tell qclimb what to do on this switch."""


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb apply intent.json")
@click.argument("file", type=click.File("rb"))
@namespace_option
def apply(file: IO[bytes], namespace: str | None) -> None:
    """Write an intent, and what follows from it, in one patch.

    FILE has it as JSON of qclimb.yang or as rows of CONFIG_DB; - is standard input.
    """
    apply_patch(["-"], namespace, file.read())


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb enable")
@namespace_option
def enable(namespace: str | None) -> None:
    """Lay the present intent over the switch's queues."""
    apply_patch(["--admin-state", "enabled"], namespace)


@qclimb.command(context_settings=help_names, epilog="Example: config qclimb disable")
@namespace_option
def disable(namespace: str | None) -> None:
    """Give back what stood before; the intent's rows stay."""
    apply_patch(["--admin-state", "disabled"], namespace)


def register(cli: click.Group) -> None:
    """What `config` calls for each of its plug-ins."""
    cli.add_command(qclimb)
