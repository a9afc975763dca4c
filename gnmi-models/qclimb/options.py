"""Types of command options, and options, that several commands have."""

import math
import os
import tomllib
from difflib import get_close_matches
from errno import EACCES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .leaves import LARGEST_TH, LEAST_TH
from .text import printable

if TYPE_CHECKING:
    from click import ParamType as ParamType
else:

    class ParamType(click.ParamType):
        """click's, which takes its value's type in brackets from 8.4 on; SONiC has 8.1 (sonic-utilities, setup.py)."""

        def __class_getitem__(cls, _: object) -> type:
            return cls


class Refused(click.ClickException):
    """What was asked for can't be done: `Error: ` and one sentence, exit status 2, on every command line alike."""

    exit_code = 2

    def format_message(self) -> str:
        """The sentence, which may repeat what a host, a switch or a file says."""
        return printable(self.message)


class Finite(click.FloatRange):
    """A number in a range; click's own lets NaN in, and infinity where there is no upper end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is no number, expected one in {self._describe_range()}", param, ctx)
        return found


class BufferShares(ParamType[tuple[int, ...]]):
    """SONiC's dynamic_th of each queue, served first to last, with commas."""

    name = "TH,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers."""
        try:
            found = value if isinstance(value, tuple) else tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no list of whole numbers with commas, like 1,1,3", param, ctx)
        if not all(LEAST_TH <= share <= LARGEST_TH for share in found):
            self.fail(f"{value!r}: expected each from {LEAST_TH} to {LARGEST_TH}", param, ctx)
        return found


PICTURES = (".png", ".svg")


class Output(click.Path):
    """A file or folder to be written, checked when the command line is read: the work before it may take minutes.

    Args:
        folder: it is a folder, which is made where it is not there.
        parents: folders above it are made where they are not there.
        endings: what its name must end in, one of them; empty: anything.
    """

    def __init__(self, folder: bool = False, parents: bool = False, endings: tuple[str, ...] = ()) -> None:
        super().__init__(path_type=Path, file_okay=not folder, dir_okay=folder)
        self.folder, self.parents, self.endings = folder, parents or folder, endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if ctx and param and param.name and ctx.get_parameter_source(param.name) is ParameterSource.DEFAULT:
            return path  # `--help` and lists need no place to write to
        if self.endings and path.suffix not in self.endings:
            self.fail(f"{path}: expected a name that ends in {' or '.join(self.endings)}", param, ctx)
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            self.fail(f"{path}: can't be reached ({error.strerror}), expected a place to write to", param, ctx)
        place = path if path.exists() else path.absolute().parent
        while self.parents and not place.exists() and place != place.parent:
            place = place.parent
        if not place.exists():
            self.fail(f"{path}: there is no folder {place}, expected one to write to", param, ctx)
        if (place != path or self.folder) and not place.is_dir():
            self.fail(f"{path}: {place} is no folder, expected one to write to", param, ctx)
        try:
            _write_to(place)
        except OSError as error:
            self.fail(f"{path}: {place} can't be written ({error.strerror}), expected a place to write to", param, ctx)
        return path


def _write_to(place: Path) -> None:
    """Changes nothing. Tried, not asked for by permissions: root has all of them, in /proc too.

    Raises: OSError.
    """
    if place.is_dir():
        TemporaryFile(dir=place).close()
    elif not os.access(place, os.W_OK):  # to open a pipe would wait
        raise PermissionError(EACCES, os.strerror(EACCES))


def _defaults(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Options that a TOML file gives stand where the command line gives none."""
    if path is None:
        return
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise click.UsageError(f"--config {path}: {error}, expected a TOML file") from None
    names = {
        option.opts[-1].removeprefix("--").replace("-", "_"): option
        for option in ctx.command.params
        if isinstance(option, click.Option) and option.opts[-1].startswith("--") and not option.is_eager
    }
    given = {}
    for key, value in found.items():
        if key not in names:
            near = get_close_matches(key, names, 1, 0)
            raise click.UsageError(f"--config {path}: there is no setting {key!r}, expected one as {near[0]!r}")
        option = names[key]
        if isinstance(value, list) != option.multiple or isinstance(value, dict):
            raise click.UsageError(
                f"--config {path}: {key} is {value!r}, expected {'a list' if option.multiple else 'one value'}"
            )
        if option.is_flag and not isinstance(value, bool):
            raise click.UsageError(f"--config {path}: {key} is {value!r}, expected true or false")
        given[str(option.name)] = value
    ctx.default_map = {**(ctx.default_map or {}), **given}


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_defaults,
    help="Options from a TOML file, by their names with _ for -; the command line counts before it.",
)
"""For daemons that a service manager starts."""


def _tell(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    try:
        number = version("qclimb")
    except PackageNotFoundError:
        number = "unknown (the package is not installed)"
    click.echo(f"{ctx.find_root().info_name} {number}")
    ctx.exit()


version_option = click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_tell, help="Show the version and exit."
)
"""For each console command."""
