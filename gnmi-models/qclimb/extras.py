"""What a command says where the packages of an extra are not installed: which one, and no traceback."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, entry_points, requires

import click

DISTRIBUTION_OF = {
    "google": "protobuf",
    "grpc": "grpcio",
    "sklearn": "scikit-learn",
    "elftools": "pyelftools",
    "prometheus_client": "prometheus-client",
}
"""Of modules that are called otherwise than what brings them."""
SMALLEST_FIRST = ("", "switch", "lab", "cluster", "spark", "dev")
"""Extras in the order in which they are offered; "" is the package itself."""


def advice(module: str) -> str | None:
    """How to install what brings this module, as the end of a sentence; None where no extra does."""
    wanted = DISTRIBUTION_OF.get(module.partition(".")[0], module.partition(".")[0])
    try:
        asked = requires("qclimb") or []
    except PackageNotFoundError:
        asked = []
    found = set()
    for line in asked:
        name = re.match(r"[\w.-]+", line)
        if name is not None and name[0].replace("_", "-").lower() == wanted.replace("_", "-").lower():
            marker = re.search(r"extra == ['\"](\w+)['\"]", line)
            found.add(marker[1] if marker else "")
    for extra in SMALLEST_FIRST:
        if extra in found:
            return f"pip install 'qclimb[{extra}]'" if extra else "pip install qclimb"
    return None


@contextmanager
def named() -> Iterator[None]:
    """A package of an extra that is missing ends the command with one sentence and status 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        how = advice(error.name or "")
        if how is None:
            raise
        click.echo(f"Error: this needs the package `{error.name}`, which is not installed: {how}", err=True)
        sys.exit(2)


class Group(click.Group):
    """A group of commands, none of which ends in a traceback for want of an extra."""

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command."""
        with named():
            return super().invoke(ctx)


def add_installed(group: click.Group, points: str) -> None:
    """Hangs commands of installed parts into a group; `points`: the entry points that name them."""
    for point in entry_points(group=points):
        try:
            group.add_command(point.load(), point.name)
        except ImportError as error:
            words = point.name if points == "qclimb.commands" else f"{group.name} {point.name}"
            group.add_command(_missing(words, error), point.name)


def _missing(name: str, error: ImportError) -> click.Command:
    """Stands for a command whose packages are not installed here: says which."""

    @click.command(
        name.rpartition(" ")[2], context_settings={"ignore_unknown_options": True}, help=f"(not installed: {error})"
    )
    @click.argument("words", nargs=-1)
    def command(words: tuple[str, ...]) -> None:
        raise click.UsageError(
            f"`qclimb {name}` needs packages that are not installed ({error}): "
            + (advice(error.name or "") or "pip install 'qclimb[all]'")
        )

    return command
