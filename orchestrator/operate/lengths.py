"""`qclimb length`: how services' messages tell their size, as hosts found it, and an operator's word on it."""

from typing import Any

import click
from qclimb.errors import LengthError
from qclimb.lengths import Service
from qclimb.options import ParamType

from .rest import Rest, asks
from .show import example, table, tell


class ServiceName(ParamType[Service]):
    """PROGRAM:accepts:PORT or PROGRAM:connects:PORT."""

    name = "SERVICE"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> Service:
        """The service."""
        try:
            return Service.named(str(value))
        except LengthError as error:
            self.fail(str(error))


SERVICE = click.argument("service", type=ServiceName())


@click.group(epilog=example("length list"))
def length() -> None:
    """Lengths that applications write themselves, by service.

    A SERVICE is PROGRAM:accepts:PORT or PROGRAM:connects:PORT; port 0: all that kernels choose.
    """


@length.command("list", epilog=example("length list"))
@asks
def list_lengths(rest: Rest, as_json: bool) -> None:
    """All services, with how often what was announced was right."""
    found = rest.ask("GET", "lengths")
    if as_json:
        tell(found, True)
        return
    heads = ("SERVICE", "USE", "RULE", "#FLOWS", "#EXACT", "#SHORT", "#BEYOND")
    table(map(_row, found["lengths"]), *heads, none="nothing is known yet")


def _row(each: dict[str, Any]) -> list[Any]:
    name = f"{each['program']}:{'accepts' if each['role'] else 'connects'}:{each['port']}"
    words = [each["use"], *(word for word in ("pinned", "is_exact") if each[word])]
    score = [each["score"][part] for part in ("exact", "short", "beyond")]
    return [name, ", ".join(words).replace("is_", ""), _rule(each["rule"]), sum(score), *score]


def _rule(rule: dict[str, Any] | None) -> str:
    if rule is None:
        return "HTTP/1.x"
    order = "big" if rule["is_big_endian"] else "little"
    return f"{rule['width']} bytes at {rule['offset']}, {order} endian, {rule['constant_bytes']:+d}"


@length.command("pin", epilog=example("length pin java:accepts:9092 --offset 0 --width 4 --constant-bytes 4"))
@SERVICE
@click.option("--offset", type=click.IntRange(0, 63), required=True, help="Of the number, in the message.")
@click.option("--width", type=click.Choice(["2", "3", "4", "8"]), required=True, help="Of the number, in bytes.")
@click.option("--little-endian", is_flag=True, help="Instead of big.")
@click.option("--constant-bytes", type=click.IntRange(-4096, 4096), default=0, show_default=True, help="To be added.")
@click.option("--exact", is_flag=True, help="It is an upper bound, too.")
@asks
def pin_length(
    rest: Rest,
    service: Service,
    offset: int,
    width: str,
    little_endian: bool,
    constant_bytes: int,
    exact: bool,
    as_json: bool,
) -> None:
    """Has hosts read SERVICE's lengths by a rule, whatever they find."""
    rule = {"offset": offset, "width": int(width), "is_big_endian": not little_endian, "constant_bytes": constant_bytes}
    found = rest.ask("PUT", "lengths", service, body={"rule": rule, "is_exact": exact})
    tell(found, as_json, f"{service.name}: {_rule(found['rule'])}, pinned")


@length.command("forbid", epilog=example("length forbid mysqld:accepts:3306"))
@SERVICE
@asks
def forbid_length(rest: Rest, service: Service, as_json: bool) -> None:
    """Has hosts look at no byte of SERVICE's messages."""
    found = rest.ask("PUT", "lengths", service, body={"use": "forbidden"})
    tell(found, as_json, f"{service.name}: forbidden")


@length.command("forget", epilog=example("length forget mysqld:accepts:3306"))
@SERVICE
@asks
def forget_length(rest: Rest, service: Service, as_json: bool) -> None:
    """Takes your word on SERVICE back, and forgets what hosts found."""
    rest.ask("DELETE", "lengths", service)
    tell(None, as_json, f"{service.name}: what hosts find counts again")
