"""What a command says where the packages of an extra are not installed: which one, and no traceback."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

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
