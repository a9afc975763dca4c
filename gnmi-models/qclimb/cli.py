"""The `qclimb` command: a frame into which the installed parts hang their groups (entry points `qclimb.commands`)."""

from importlib.metadata import entry_points

import click

from qclimb.extras import Group, advice
from qclimb.options import version_option

EXAMPLE = """\b
Example:
  qclimb lab demo          # the whole of qclimb on one machine
  qclimb lab run fct       # plain TCP, PIAS and QCLIMB over seeds and loads
"""


@click.group(cls=Group, epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """Short flows finish first, on the switches and kernels that a data centre already has."""


def _missing(name: str, error: ImportError) -> click.Command:
    """Stands for a group whose packages are not installed here: says which."""

    @click.command(name, context_settings={"ignore_unknown_options": True}, help=f"(not installed: {error})")
    @click.argument("words", nargs=-1)
    def command(words: tuple[str, ...]) -> None:
        raise click.UsageError(
            f"`qclimb {name}` needs packages that are not installed ({error}): "
            + (advice(error.name or "") or "pip install 'qclimb[all]'")
        )

    return command


for _point in entry_points(group="qclimb.commands"):
    try:
        main.add_command(_point.load())
    except ImportError as _error:
        main.add_command(_missing(_point.name, _error))
