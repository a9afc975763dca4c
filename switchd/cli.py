"""`qclimb-switchd`: follows the QCLIMB_* rows of a switch's redis and serves gNMI."""

import logging
import re
import signal
import sys
import threading
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import click
from qclimb import pem
from qclimb.errors import QclimbError

from switchd.apply import Switch
from switchd.backend import open_database
from switchd.daemon import run

log = logging.getLogger("switchd")

STOP_GRACE_S = 1.0
DEFAULT_REDIS = "unix:///var/run/redis/redis.sock"

File = click.Path(exists=True, dir_okay=False, path_type=Path)


def address(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """ADDR:PORT, an IPv6 address in brackets."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
        if not 0 <= int(port) <= 65535:
            raise ValueError
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is no ADDR:PORT, expected an IP address and a port, like 198.18.0.11:9339"
        ) from None
    return value


def loopback(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """ADDR:PORT on loopback."""
    value = address(context, parameter, value)
    if value and not ip_address(value.rpartition(":")[0].strip("[]")).is_loopback:
        raise click.BadParameter(f"{value!r} is no loopback address: without TLS only loopback is served")
    return value


def redis_address(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """unix:///PATH or redis://ADDR:PORT."""
    try:
        found = urlsplit(value)
        good = (found.scheme == "unix" and not found.netloc.rpartition("@")[2] and len(found.path) > 1) or (
            found.scheme == "redis" and bool(found.hostname) and found.port != 0
        )
    except ValueError:  # a port that is no number, or beyond 65535
        good = False
    if not good:
        raise click.BadParameter(f"{without_password(value)!r}: expected unix:///PATH or redis://ADDR:PORT")
    return value


def without_password(url: str) -> str:
    """A redis URL as logs may have it."""
    return re.sub(r"(?<=//)[^/]*@", "***@", url)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: qclimb-switchd --redis unix:///var/run/redis/redis.sock --listen 198.18.0.11:9339 "
    "--tls-cert l1.pem --tls-key l1.key --tls-ca ca.pem",
)
@click.option(
    "--redis",
    "redis_url",
    default=DEFAULT_REDIS,
    show_default=True,
    callback=redis_address,
    metavar="URL",
    help="unix:///PATH or redis://ADDR:PORT.",
)
@click.option(
    "--backend",
    type=click.Choice(["auto", "swsscommon", "redis"]),
    default="auto",
    show_default=True,
    help="How to speak to redis.",
)
@click.option("--listen", callback=address, metavar="ADDR:PORT", help="Serve gNMI with mutual TLS here.")
@click.option("--tls-cert", type=File, help="The server's certificate chain (PEM).")
@click.option("--tls-key", type=File, help="Its private key (PEM).")
@click.option("--tls-ca", type=File, help="The CA of the clients' certificates (PEM).")
@click.option(
    "--plain-loopback", callback=loopback, metavar="ADDR:PORT", help="Also serve gNMI without TLS, on loopback only."
)
@click.option("--narrow-buffers", is_flag=True, help="Queues before the last may hold no more than is free (README).")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
    help="What stderr gets; info: what changes on the switch.",
)
def main(
    redis_url: str,
    backend: str,
    listen: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    plain_loopback: str | None,
    narrow_buffers: bool,
    log_level: str,
) -> None:
    """Lay the intent of the QCLIMB_* tables over SONiC's QoS tables, and serve it by gNMI."""
    logging.basicConfig(
        level=log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if not listen and not plain_loopback:
        raise click.UsageError(
            "nothing to serve: give --listen with --tls-cert, --tls-key and --tls-ca, or --plain-loopback"
        )
    files = {"--tls-cert": tls_cert, "--tls-key": tls_key, "--tls-ca": tls_ca}
    missing = [name for name, value in files.items() if value is None]
    if listen and missing:
        raise click.UsageError(f"--listen needs {', '.join(missing)}: a switch is never served without mutual TLS")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    serve(redis_url, backend, listen, (tls_cert, tls_key, tls_ca), plain_loopback, stop, narrow_buffers)


def serve(
    redis_url: str,
    backend: str,
    listen: str | None,
    files: tuple[Path | None, Path | None, Path | None],
    plain_loopback: str | None,
    stop: threading.Event,
    narrow_buffers: bool = False,
) -> None:
    """Run until `stop`. Bad files and addresses end the process with status 2."""
    from switchd.gnmi.server import Servicer, Tls, start  # grpc: not for --help

    try:
        db = open_database(backend, redis_url)
        switch = Switch(db, narrow_buffers=narrow_buffers)
        servers, servicers = [], []
        for where, plain in ((listen, False), (plain_loopback, True)):
            if where is None:
                continue
            tls = None
            if not plain:
                paths = [path for path in files if path is not None]
                pem.check(*paths)
                tls = Tls(*(path.read_bytes() for path in paths))
            servicers.append(Servicer(switch, plain))
            server, port = start(servicers[-1], where, tls)
            servers.append(server)
            kind = "none" if plain else "mutual"
            log.info("ready address=%s port=%d tls=%s redis=%s", where, port, kind, without_password(redis_url))
    except (OSError, ValueError, QclimbError) as error:
        raise click.UsageError(str(error)) from error
    run(switch, db, stop)
    for servicer in servicers:
        servicer.closing.set()
    for done in [server.stop(STOP_GRACE_S) for server in servers]:
        done.wait(2 * STOP_GRACE_S)
    db.close()
    log.info("stopped")


if __name__ == "__main__":
    main()
