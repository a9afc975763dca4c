"""`qclimb-switchd`: follows the QCLIMB_* rows of a switch's redis and serves gNMI."""

import logging
import os
import re
import signal
import threading
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import click
from qclimb.config_db import TABLES as INTENT_TABLES
from qclimb.errors import NewerRows, QclimbError
from qclimb.extras import named
from qclimb.options import Finite, version_option

from switchd import logs
from switchd.namespaces import is_namespace

with named():  # redis, whose client the extra `switch` brings
    from switchd.apply import Switch
    from switchd.backend import open_database
    from switchd.daemon import run
    from switchd.db import Database, DatabaseLost, RowsChanged
    from switchd.guard import WINDOW_S
    from switchd.patchers import PATCH_S
    from switchd.quiet import QUIET_S
    from switchd.wanted import PathBackend
    from switchd.warm import WarmStart

log = logging.getLogger("switchd")

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


def listened(_context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """ADDR:PORT each, or a port alone."""
    for value in values:
        if not (value.isascii() and value.isdecimal() and int(value) <= 65535):
            address(_context, parameter, value)
    return values


def asic(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """SONiC's name of an ASIC's namespace, or none."""
    if value and not is_namespace(value):
        raise click.BadParameter(f"{value!r} is no namespace, expected asic0, asic1, ...")
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
@click.option(
    "--give-back",
    is_flag=True,
    help="Restore what stood before qclimb, delete its objects, and end; the intent's rows stay. Before uninstalling.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    callback=asic,
    metavar="NAME",
    help="Of several ASICs: asic0, ...; its redis is the one that SONiC's files tell.",
)
@click.option(
    "--listen",
    multiple=True,
    callback=listened,
    metavar="[ADDR:]PORT",
    help="Serve gNMI with mutual TLS here; a port alone: on the management interface and loopback. Repeatable.",
)
@click.option("--tls-cert", type=File, help="The server's certificate chain (PEM).")
@click.option("--tls-key", type=File, help="Its private key (PEM).")
@click.option("--tls-ca", type=File, help="The CA of the clients' certificates (PEM).")
@click.option(
    "--tls-from-config-db",
    is_flag=True,
    help="Files of --tls-* are those of GNMI|certs; until they are there and good, only gNMI is not served.",
)
@click.option(
    "--plain-loopback", callback=loopback, metavar="ADDR:PORT", help="Also serve gNMI without TLS, on loopback only."
)
@click.option(
    "--paths",
    "backend_of_paths",
    type=click.Choice(["acl", "none"]),
    default="acl",
    show_default=True,
    help="What pins classes to spines: ACL redirects, or nothing; then an intent with paths is refused.",
)
@click.option(
    "--quiet-s",
    type=Finite(0, 600),
    default=QUIET_S,
    show_default=True,
    metavar="SECONDS",
    help="How long others must have left CONFIG_DB alone before rows that follow from its intent are written, so that "
    "no patch by `config apply-patch` fails.",
)
@click.option(
    "--patch-s",
    type=Finite(0, 86_400),
    default=PATCH_S,
    show_default=True,
    metavar="SECONDS",
    help="How long a client of redis is waited for beside that, which looks like SONiC's `config` with a patch that "
    "has read CONFIG_DB and not yet written; one that may be a service a tenth of that.",
)
@click.option(
    "--guard-s",
    type=Finite(0, 86_400),
    default=WINDOW_S,
    show_default=True,
    metavar="SECONDS",
    help="Over how long a class's bytes are held against what is foretold; 0: never.",
)
@click.option(
    "--max-streams",
    type=click.IntRange(1, 100_000),
    default=1200,
    show_default=True,
    metavar="COUNT",
    help="Subscriptions open at once; a tenth of them is kept for clients that may write.",
)
@click.option(
    "--max-client-streams",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="COUNT",
    help="Of these, how many one client may have.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="info",
    show_default=True,
    help="What stderr gets; info: what changes on the switch.",
)
@version_option
@named()
def main(
    redis_url: str,
    backend: str,
    give_back: bool,
    namespace: str,
    listen: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    tls_from_config_db: bool,
    plain_loopback: str | None,
    backend_of_paths: PathBackend,
    quiet_s: float,
    patch_s: float,
    guard_s: float,
    max_streams: int,
    max_client_streams: int,
    log_level: str,
) -> None:
    """Lay the intent of the QCLIMB_* tables over SONiC's QoS tables, and serve it by gNMI."""
    logs.configure(log_level)
    files = {"--tls-cert": tls_cert, "--tls-key": tls_key, "--tls-ca": tls_ca}
    missing = [name for name, value in files.items() if value is None]
    if not (listen or plain_loopback or give_back):
        raise click.UsageError(
            "nothing to serve: give --listen with --tls-cert, --tls-key and --tls-ca, or --plain-loopback"
        )
    if tls_from_config_db and len(missing) < len(files):
        raise click.UsageError("--tls-from-config-db: expected no --tls-cert, --tls-key, --tls-ca beside it")
    if listen and missing and not tls_from_config_db:
        raise click.UsageError(f"--listen needs {', '.join(missing)}: a switch is never served without mutual TLS")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        db = open_database(backend, redis_url, namespace)
        host = open_database(backend, redis_url) if namespace else db
    except QclimbError as error:
        raise click.UsageError(str(error)) from error
    switch = Switch(db, backend=backend_of_paths, quiet_s=quiet_s, guard_s=guard_s, host=host, patch_s=patch_s)
    if give_back:
        gone(switch)
        return
    from switchd.door import Doors  # grpc: not for --help
    from switchd.gnmi.limits import Limits
    from switchd.saving import Saver

    given = None if tls_from_config_db else [path for path in files.values() if path is not None]
    doors = Doors(switch, listen, plain_loopback, given, Limits(max_streams, max_client_streams))
    level, warm = logs.Level(log_level), WarmStart(db, feature())
    try:
        doors.open()
    except (OSError, ValueError, QclimbError) as error:
        raise click.UsageError(str(error)) from error
    log.info("start redis=%s", namespace or without_password(redis_url))
    run(switch, db, stop, [doors.beat, lambda: level.follow(host), lambda: warm.follow(switch), Saver(switch).beat])
    doors.close()
    with suppress(DatabaseLost):
        if is_leaving(host) or not any(db.get_tables(INTENT_TABLES).values()):  # nobody may be there to do it later
            try:
                switch.give_back()
            except (RowsChanged, NewerRows) as error:
                log.warning("gave nothing back error=%r", str(error))
        switch.leave()
    db.close()
    log.info("stopped")


def is_leaving(db: Database) -> bool:
    """Whether SONiC ends this service for good (`config feature state qclimb disabled`), as opposed to a restart."""
    return db.get_entry("FEATURE", feature()).get("state", "").endswith("disabled")


def feature() -> str:
    """SONiC's name of this service."""
    return os.environ.get("QCLIMB_FEATURE", "qclimb")


def gone(switch: Switch) -> None:
    """`--give-back`: one sentence and status 2 where it can't be done."""
    try:
        switch.give_back()
        kept = {port: row["reason"] for port, row in switch.snapshot.ports.items() if "reason" in row}
        switch.leave()
    except (DatabaseLost, RowsChanged, NewerRows) as error:
        raise click.UsageError(str(error)) from error
    if kept:
        port, reason = next(iter(kept.items()))
        raise click.UsageError(f"{len(kept)} ports were left as they are; {port}: {reason}")


if __name__ == "__main__":
    main()
