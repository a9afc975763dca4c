"""The command `serve`: the orchestrator itself, wired up and run."""

import logging
import os
import signal
import threading
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import click
from qclimb import pem
from qclimb.errors import QclimbError
from qclimb.options import Finite, Refused, config_option

from .defaults import (
    DAY_S,
    DRIFT_EVERY_S,
    HOSTS_DEADLINE_S,
    LINK_GBPS,
    MAX_AGE_DAYS,
    MAX_RECORDS,
    SPINE_DOWN_S,
    SPINE_UP_S,
    SPINES_EVERY_S,
    SWITCH_DEADLINE_S,
)
from .environment import drop_library_settings
from .ingest.quota import RECORDS_PER_S
from .listening import Listen, bound_to, trusted_proxy_option
from .logs import configure

log = logging.getLogger("orchestrator")

EXAMPLE = """\b
Example:
  qclimb-orchestrator init control --address 192.0.2.1 --switch leaf=192.0.2.11
  qclimb-orchestrator serve --config control/orchestrator.toml
"""
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(epilog=EXAMPLE, no_args_is_help=True)
@config_option
@click.option("--listen", type=Listen(), required=True, help="Where REST is served.")
@click.option(
    "--database",
    required=True,
    help="sqlite:///PATH, made if it is not there; or postgresql://USER@HOST/NAME, which several orchestrators may "
    "share: one leads, the others stand by.",
)
@click.option("--redis", "redis_url", help="Keep what `ingest` workers leave there, too.")
@click.option("--tls-cert", type=EXISTING, help="Certificate (chain) of the REST server, PEM.")
@click.option("--tls-key", type=EXISTING, help="Its key.")
@click.option("--client-ca", type=EXISTING, help="Ask REST clients for a certificate of this CA as well.")
@click.option("--switch-cert", type=EXISTING, help="Client certificate shown to switches; without it none is reached.")
@click.option("--switch-key", type=EXISTING, help="Its key.")
@click.option("--switch-ca", type=EXISTING, help="CA of the switches' certificates.")
@click.option(
    "--bootstrap-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The first admin token is written here (0600) at the first start.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the log, a line an event, on standard error.",
)
@click.option("--plain-loopback", is_flag=True, help="No TLS; only on a loopback address.")
@trusted_proxy_option
@click.option(
    "--max-records",
    type=click.IntRange(1, 2**31 - 1),
    default=MAX_RECORDS,
    show_default=True,
    help="Flow records that are kept of a label.",
)
@click.option(
    "--records-per-s",
    type=click.IntRange(1, 2**31 - 1),
    default=RECORDS_PER_S,
    show_default=True,
    help="About so many flow records are asked for, of all hosts together; the sizes of the others are counted.",
)
@click.option(
    "--host-link-gbps",
    type=Finite(0, min_open=True),
    default=LINK_GBPS,
    show_default=True,
    help="What a host's link carries: it is believed no more flows than that.",
)
@click.option(
    "--switch-deadline-s",
    type=Finite(0.1),
    default=SWITCH_DEADLINE_S,
    show_default=True,
    help="How long a switch may take to confirm an intent.",
)
@click.option(
    "--hosts-deadline-s",
    type=Finite(0.1),
    default=HOSTS_DEADLINE_S,
    show_default=True,
    help="How long hosts may take to report a policy before the rollout counts as failed.",
)
@click.option(
    "--on-switch-drift",
    type=click.Choice(["show", "repair"]),
    default="show",
    show_default=True,
    help="Towards a switch that holds another intent than the one in force. One that was away during its rollout is "
    "told when it answers, with both.",
)
@click.option(
    "--on-drift",
    type=click.Choice(["flag", "offer", "rollout"]),
    default="offer",
    show_default=True,
    help="Towards a new model, when the bounds in force no longer hold: flag says so; offer trains one, offered if "
    "it is better; rollout rolls it out. Bounds too old or wrong are switched off meanwhile, with each of them.",
)
@click.option(
    "--model-max-age-days",
    type=Finite(0, min_open=True),
    default=MAX_AGE_DAYS,
    show_default=True,
    help="Older bounds are switched off, as are those whose coverage is demonstrably below its target.",
)
@click.option("--keep-bounds", is_flag=True, help="Never switch bounds off, however old or wrong.")
@click.option(
    "--drift-every-s",
    type=Finite(0.1),
    default=DRIFT_EVERY_S,
    show_default=True,
    help="From one look at the bounds in force to the next.",
)
@click.option(
    "--spines-every-s",
    type=Finite(0.1),
    default=SPINES_EVERY_S,
    show_default=True,
    help="From one look at the leaves' spines to the next.",
)
@click.option(
    "--spine-down-s",
    type=Finite(0),
    default=SPINE_DOWN_S,
    show_default=True,
    help="A spine that a leaf can't reach for so long is left out of thresholds and weights.",
)
@click.option(
    "--spine-up-s",
    type=Finite(0),
    default=SPINE_UP_S,
    show_default=True,
    help="One that every leaf reaches for so long is taken in again.",
)
def serve(
    listen: tuple[str, int],
    database: str,
    redis_url: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    switch_cert: Path | None,
    switch_key: Path | None,
    switch_ca: Path | None,
    bootstrap_token_file: Path,
    log_format: str,
    plain_loopback: bool,
    trusted_proxies: tuple[str, ...],
    max_records: int,
    records_per_s: int,
    host_link_gbps: float,
    switch_deadline_s: float,
    hosts_deadline_s: float,
    on_drift: str,
    on_switch_drift: str,
    model_max_age_days: float,
    keep_bounds: bool,
    drift_every_s: float,
    spines_every_s: float,
    spine_down_s: float,
    spine_up_s: float,
) -> None:
    """Serves REST until SIGTERM or Ctrl-C."""
    host, port = listen
    if plain_loopback:
        if not ip_address(host).is_loopback:
            raise click.UsageError(f"--listen is {host} with --plain-loopback, expected a loopback address")
        if tls_cert or tls_key or client_ca:
            raise click.UsageError("--plain-loopback and --tls-cert, --tls-key or --client-ca exclude each other")
    elif not (tls_cert and tls_key):
        raise click.UsageError(
            "--tls-cert and --tls-key are missing; REST is never served plain but on a loopback address"
        )
    to_switches = (switch_cert, switch_key, switch_ca)
    if any(to_switches) and not all(to_switches):
        raise click.UsageError("--switch-cert, --switch-key and --switch-ca belong together, expected all or none")
    configure(log_format)
    if dropped := drop_library_settings(os.environ):
        log.warning("environment event=ignored names=%s", ",".join(dropped))
    logging.getLogger("pygnmi").setLevel(logging.CRITICAL + 1)  # its failures come back as ours, with the path

    import uvicorn

    from .fabric.runner import Runner
    from .fabric.switches import Fleet
    from .ingest.recordings import Recordings
    from .ingest.stream import Consumer, opened
    from .metrics import Metrics
    from .models.trainer import Trainer
    from .rest import standby, tokens
    from .rest.app import make_app
    from .rest.server import Server, configure_server
    from .rest.service import Service
    from .store.store import Store
    from .watch.bounds import OnDrift, Watch
    from .watch.health import HealthWatch
    from .watch.office import OfficeWatch
    from .watch.spines import SpineWatch
    from .watch.switches import SwitchWatch

    def configured(app: Any) -> uvicorn.Config:
        return configure_server(app, tls_cert, tls_key, client_ca, trusted_proxies)

    ends = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.set())  # uvicorn raises it once more at its end; what follows is ours
    try:
        fleet = Fleet(*to_switches)
        if tls_cert and tls_key:
            pem.check(tls_cert, tls_key, client_ca)
        door = bound_to(host, port)  # before anything is done to the fabric
        store = standby.lead(lambda: Store(database), configured, door, ends)
        if store is None:
            return
        if store.path is None:  # a leader that was replaced, and does not know yet, changes no switch
            fleet.term = store.term
        if tokens.bootstrap(store, bootstrap_token_file):
            log.info("bootstrap token-file=%s event=written", bootstrap_token_file)
        source = None if redis_url is None else opened(redis_url)
        metrics = Metrics(store)
        runner = Runner(
            store,
            fleet,
            switch_deadline_s=switch_deadline_s,
            hosts_deadline_s=hosts_deadline_s,
            observe_push=metrics.push,
        )
    except QclimbError as error:
        raise Refused(str(error)) from None
    recordings, trainer = Recordings(store, max_records), Trainer(metrics.trained)
    max_age_s = None if keep_bounds else model_max_age_days * DAY_S
    watch = Watch(store, recordings, runner, trainer, OnDrift(on_drift), drift_every_s, max_age_s=max_age_s)
    times = (spines_every_s, spine_down_s, spine_up_s)
    spines = SpineWatch(store, recordings, runner, fleet, *times, observe=metrics.spines)
    switches = SwitchWatch(store, runner, metrics, repairs=on_switch_drift == "repair")
    certificates = {
        "REST": tls_cert,
        "clients' CA": client_ca,
        "shown to switches": switch_cert,
        "switches' CA": switch_ca,
    }
    service = Service(
        store,
        recordings,
        runner,
        trainer,
        metrics,
        watch,
        spines,
        switches,
        records_per_s,
        host_link_gbps,
        {purpose: path for purpose, path in certificates.items() if path is not None},
    )

    def ready() -> None:
        tls = "no" if plain_loopback else "yes"
        log.info("ready listen=%s:%d tls=%s database=%s", host, door.getsockname()[1], tls, store.place)

    office = OfficeWatch(store, deposed=lambda: os.kill(os.getpid(), signal.SIGTERM))
    if store.path is None:
        office.start()
    consumer = None if source is None else Consumer(source, store, service.intake)
    if consumer is not None:
        consumer.start()
    health = HealthWatch(store, runner)
    health.start()
    switches.start()
    Server(configured(make_app(service)), door, ready).run()
    office.close()
    health.close()
    if consumer is not None:
        consumer.close()
    switches.close()
    store.close()
    if office.is_deposed:
        raise SystemExit(1)  # its service manager starts it again, and it stands by
