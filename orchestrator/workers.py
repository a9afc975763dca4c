"""The command `ingest`: one worker."""

import logging
import os
import signal
from ipaddress import ip_address
from pathlib import Path

import click
from qclimb import pem
from qclimb.errors import QclimbError
from qclimb.options import Refused, config_option

from .environment import drop_library_settings
from .ingest.quota import RECORDS_PER_S
from .listening import Listen, bound_to, trusted_proxy_option
from .logs import configure

log = logging.getLogger("orchestrator.ingest")

EXAMPLE = """\b
Example, on a machine with its own redis-server (appendonly yes, appendfsync always), once a core:
  qclimb-orchestrator ingest --listen 192.0.2.2:8444 --redis unix:///run/redis/redis.sock \\
      --database postgresql://qclimb@db.example/qclimb --tls-cert server.pem --tls-key server.key
"""
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=EXAMPLE, no_args_is_help=True)
@config_option
@click.option("--listen", type=Listen(), required=True, help="Where hosts deliver; several workers may share it.")
@click.option("--database", required=True, help="The orchestrators', to read from: tokens, hosts, the policy.")
@click.option(
    "--redis", "redis_url", required=True, help="Where deliveries wait: rediss://, or redis://, unix:// here."
)
@click.option("--tls-cert", type=EXISTING, help="Certificate (chain), PEM.")
@click.option("--tls-key", type=EXISTING, help="Its key.")
@click.option("--plain-loopback", is_flag=True, help="No TLS; only on a loopback address.")
@trusted_proxy_option
@click.option(
    "--records-per-s",
    type=click.IntRange(1, 2**31 - 1),
    default=RECORDS_PER_S,
    show_default=True,
    help="About so many flow records are asked for by this worker.",
)
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="On standard error."
)
def ingest(
    listen: tuple[str, int],
    database: str,
    redis_url: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    plain_loopback: bool,
    trusted_proxies: tuple[str, ...],
    records_per_s: int,
    log_format: str,
) -> None:
    """Takes hosts' deliveries for `serve --redis`.

    Start one a core. A delivery is acknowledged once Redis has it on disk; the orchestrator that leads keeps it.
    """
    host, port = listen
    if plain_loopback and (tls_cert or tls_key or not ip_address(host).is_loopback):
        raise click.UsageError("--plain-loopback expects a loopback address, and no --tls-cert or --tls-key")
    if not plain_loopback and not (tls_cert and tls_key):
        raise click.UsageError("--tls-cert and --tls-key are missing; hosts' tokens never cross a network in the clear")
    configure(log_format)
    if dropped := drop_library_settings(os.environ):
        log.warning("environment event=ignored names=%s", ",".join(dropped))

    from .ingest.stream import StreamIntake, opened
    from .metrics import Metrics
    from .rest.server import Server, configure_server
    from .rest.worker import Worker, make_worker
    from .store.reader import Reader

    try:
        if tls_cert and tls_key:
            pem.check(tls_cert, tls_key, None)
        door = bound_to(host, port, is_shared=True)
        to, store = opened(redis_url), Reader(database)
    except QclimbError as error:
        raise Refused(str(error)) from None
    metrics = Metrics(store)
    intake = StreamIntake(to, store, metrics, records_per_s)
    app = make_worker(Worker(store, intake, metrics))
    config = configure_server(app, tls_cert, tls_key, trusted_proxies=trusted_proxies)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    def ready() -> None:
        log.info("ready listen=%s:%d database=%s", host, door.getsockname()[1], store.place)

    Server(config, door, ready).run()
    store.close()
