"""Where a server listens: the option, and the socket."""

import socket
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import click
from qclimb.errors import QclimbError
from qclimb.options import ParamType


def is_address(text: str) -> bool:
    """Whether it is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


class Listen(ParamType[tuple[str, int]]):
    """ADDRESS:PORT or [ADDRESS]:PORT."""

    name = "ADDRESS:PORT"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> tuple[str, int]:
        """The address, without brackets, and the port."""
        host, _, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not is_address(host):
            self.fail(f"{value!r} is no ADDRESS:PORT, expected for example 127.0.0.1:8443")
        if not (port.isdecimal() and 0 <= int(port) <= 65535):
            self.fail(f"{value!r} has the port {port!r}, expected 0..65535")
        return host, int(port)


class Proxy(ParamType[str]):
    """ADDRESS or ADDRESS/PREFIX of proxies."""

    name = "ADDRESS/PREFIX"

    def convert(self, value: object, param: click.Parameter | None, context: click.Context | None) -> str:
        """The network; a single address has its whole length as prefix."""
        try:
            found: IPv4Network | IPv6Network = ip_network(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no ADDRESS/PREFIX ({error}), expected for example 192.0.2.7 or 192.0.2.0/28")
        if not found.prefixlen:
            self.fail(f"{value!r} is every address, expected those of proxies alone")
        return str(found)


trusted_proxy_option = click.option(
    "--trusted-proxy",
    "trusted_proxies",
    type=Proxy(),
    multiple=True,
    help="Proxy in front of REST; X-Forwarded-For and X-Forwarded-Proto are believed from it. Repeat. Default: none.",
)


def bound_to(host: str, port: int, *, is_shared: bool = False) -> socket.socket:
    """A listening socket; `is_shared`: with other processes (SO_REUSEPORT). Raises QclimbError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048, reuse_port=is_shared)
    except OSError as error:
        raise QclimbError(f"can't listen at {host}:{port}: {error.strerror}") from error
