"""`qclimb token`: who may do what."""

import click
from qclimb.options import Refused

from .devices import NAME
from .rest import Rest, asks
from .show import day, example, fields, table, tell

ROLES = ("viewer", "host", "operator", "admin")


@click.group(epilog=example("token make operator adam --expires-in-s 86400"))
def token() -> None:
    """Tokens: who may do what, and until when.

    A viewer reads, an operator also changes the fabric, an admin also devices and tokens. A host's is for its hostd.
    """


@token.command("list", epilog=example("token list"))
@asks
def list_tokens(rest: Rest, as_json: bool) -> None:
    """All tokens that hold, never themselves."""
    found = rest.ask("GET", "tokens")
    if as_json:
        tell(found, True)
        return
    rows = ([each["name"], each["role"], day(each["created_at"]), day(each["expires_at"])] for each in found)
    table(rows, "NAME", "ROLE", "MADE", "EXPIRES")


@token.command("mine", epilog=example("token mine"))
@asks
def my_token(rest: Rest, as_json: bool) -> None:
    """Whose token this is, and what it may."""
    found = rest.ask("GET", "caller")
    if as_json:
        tell(found, True)
        return
    fields(found)


@token.command("make", epilog=example("token make host h1 > h1.token"))
@click.argument("role", type=click.Choice(ROLES))
@NAME
@click.option("--expires-in-s", type=click.IntRange(1), help="Default: never.")
@asks
def make_token(rest: Rest, role: str, name: str, expires_in_s: int | None, as_json: bool) -> None:
    """Makes a token for NAME and prints it, this once."""
    found = rest.ask("POST", "tokens", body={"role": role, "name": name, "expires_in_s": expires_in_s})
    tell(found, as_json, found["token"])


@token.command("revoke", epilog=example("token revoke adam"))
@NAME
@asks
def revoke_tokens(rest: Rest, name: str, as_json: bool) -> None:
    """Revokes all tokens of NAME."""
    found = rest.ask("DELETE", "tokens", name)
    if not found["revoked"]:
        raise Refused(f"{name!r} has no token that is valid, expected a name of `qclimb token list`")
    tell(found, as_json, f"{found['revoked']} tokens of {name} are revoked")
