"""The `qclimb` command: a frame into which the installed parts hang their groups (entry points `qclimb.commands`)."""

import click
from click.shell_completion import get_completion_class

from qclimb.extras import Group, add_installed
from qclimb.options import Refused, version_option

EXAMPLE = """\b
Example:
  qclimb lab demo          # the whole of qclimb on one machine
  qclimb lab run fct       # plain TCP, PIAS and QCLIMB over seeds and loads
  qclimb off               # the emergency exit: no host marks anything any more
  qclimb fabric show       # of an orchestrator: see QCLIMB_URL, QCLIMB_TOKEN_FILE, QCLIMB_CA
"""


@click.group(cls=Group, epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """Short flows finish first, on the switches and kernels that a data centre already has."""


@main.command(
    "completion", epilog="\b\nExample:\n  qclimb completion bash > ~/.local/share/bash-completion/completions/qclimb"
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Prints what SHELL needs to complete commands and options."""
    kind = get_completion_class(shell)
    if kind is None:
        raise Refused(f"SHELL is {shell!r}, expected one that is known here")
    click.echo(kind(main, {}, "qclimb", "_QCLIMB_COMPLETE").source())


add_installed(main, "qclimb.commands")
