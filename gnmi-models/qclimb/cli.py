"""The `qclimb` command: a frame into which the installed parts hang their groups (entry points `qclimb.commands`)."""

from importlib.metadata import entry_points

import click

EXAMPLE = """\b
Example:
  qclimb lab demo          # the whole of qclimb on one machine
  qclimb lab run fct       # plain TCP, PIAS and QCLIMB over seeds and loads
"""


@click.group(epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Short flows finish first, on the switches and kernels that a data centre already has."""


for _command in entry_points(group="qclimb.commands"):
    main.add_command(_command.load())
