"""The commands `backup` and `restore`."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import click
from qclimb.errors import QclimbError
from qclimb.options import Output, Refused

from .environment import drop_library_settings

EXAMPLE = """\b
Example:
  qclimb-orchestrator backup --config control/orchestrator.toml monday.qclimb
  qclimb-orchestrator restore --database postgresql://qclimb@db.example/qclimb monday.qclimb
"""


def _from_settings(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """The database that `serve` has from that file."""
    if path is None:
        return
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("database")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"--config {path}: {error}, expected a TOML file") from None
    if not isinstance(found, str):
        raise click.UsageError(f"--config {path}: database is {found!r}, expected a URL")
    ctx.default_map = {**(ctx.default_map or {}), "database": found}


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_from_settings,
    help="The settings of `serve`, which name the database.",
)
database_option = click.option("--database", required=True, help="sqlite:///PATH or postgresql://USER@HOST/NAME.")
json_option = click.option("--json", "as_json", is_flag=True, help="How many rows of which table, as JSON.")


@click.command(epilog=EXAMPLE, no_args_is_help=True)
@config_option
@database_option
@json_option
@click.argument("file", type=Output())
def backup(database: str, as_json: bool, file: Path) -> None:
    """Copies the whole database to FILE, also in use.

    FILE is made with mode 0600: it holds digests of tokens, models and flows. Keep the folder of `init` beside it: its
    keys are in no database.
    """
    from .store.copies import backup as copy

    _tell("backed up", file, as_json, lambda: copy(database, file))


@click.command(epilog=EXAMPLE, no_args_is_help=True)
@config_option
@database_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def restore(database: str, as_json: bool, file: Path) -> None:
    """Copies the backup FILE into a new or empty database.

    Stop its orchestrators before. A rollout that was under way counts as failed. Tokens that were revoked since the
    backup are valid again.
    """
    from .store.copies import restore as copy

    _tell("restored", file, as_json, lambda: copy(database, file))


def _tell(what: str, file: Path, as_json: bool, copy: Callable[[], dict[str, int]]) -> None:
    drop_library_settings(os.environ)
    try:
        counts = copy()
    except QclimbError as error:
        raise Refused(str(error)) from None
    if as_json:
        click.echo(json.dumps(counts))
        return
    some = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    click.echo(f"{what} {file}: {some or 'nothing'}")
