"""The command `qclimb-orchestrator`."""

import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
from qclimb.errors import QclimbError
from qclimb.options import Output, ParamType, Refused, version_option

from .copies import backup, restore
from .listening import is_address
from .serve import EXAMPLE, serve
from .workers import ingest


class Address(ParamType[str]):
    """An IP address."""

    name = "ADDRESS"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> str:
        """The address."""
        if not is_address(str(value)) or ip_address(str(value)).is_unspecified:
            self.fail(f"{value!r} is no address at which others reach it, expected for example 192.0.2.1")
        return str(value)


class NamedAddress(ParamType[tuple[str, str]]):
    """NAME=ADDRESS."""

    name = "NAME=ADDRESS"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> tuple[str, str]:
        """The name and the address."""
        name, _, address = str(value).partition("=")
        if not name or not is_address(address):
            self.fail(f"{value!r} is no NAME=ADDRESS, expected for example leaf=192.0.2.11")
        return name, address


def documented() -> dict[str, tuple[str, Any]]:
    """Each setting of `serve`: what it says, and its default."""
    return {
        option.opts[-1].removeprefix("--").replace("-", "_"): (
            option.help or "",
            False if option.is_flag else [] if option.multiple else option.default,
        )
        for option in serve.params
        if isinstance(option, click.Option) and not option.is_eager
    }


@click.group(epilog=EXAMPLE, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """Flow sizes in; thresholds, forests, switch intents and host policies out."""


@main.command("init", epilog=EXAMPLE, no_args_is_help=True)
@click.argument("folder", type=Output(folder=True))
@click.option("--address", type=Address(), required=True, help="At which hosts, switches and you reach REST.")
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="Of REST.")
@click.option("--switch", "switches", type=NamedAddress(), multiple=True, help="A server's certificate for a switch.")
@click.option("--state", type=Output(folder=True), help="Where database and admin token will lie. [default: FOLDER]")
@click.option("--group", help="May read the orchestrator's own keys and settings, for example qclimb-orchestrator.")
@click.option("--renew", is_flag=True, help="Make certificates anew, of the same CA.")
@click.option("--json", "as_json", is_flag=True, help="What was made and what was kept as JSON.")
def init_command(
    folder: Path,
    address: str,
    port: int,
    switches: tuple[tuple[str, str], ...],
    state: Path | None,
    group: str | None,
    renew: bool,
    as_json: bool,
) -> None:
    """Makes certificates and settings for `serve`.

    FOLDER gets a CA, a certificate for REST, one for each switch and one that switches are shown. What is there stays.
    """
    from .init import SETTINGS, init

    try:
        done = init(folder, state or folder, address, port, dict(switches), renew, group, documented())
    except QclimbError as error:
        raise Refused(str(error)) from None
    if as_json:
        click.echo(json.dumps({"made": done.made, "kept": done.kept}))
        return
    click.echo(f"{folder}: made {', '.join(done.made) or 'nothing'}; kept {', '.join(done.kept) or 'nothing'}")
    click.echo(f"Next: qclimb-orchestrator serve --config {folder / SETTINGS}")


for command in (serve, backup, restore, ingest):
    main.add_command(command)

if __name__ == "__main__":
    main()
