"""`qclimb fabric`: the whole at a glance, recordings, audit, certificates."""

import sys
import time
from typing import Any

import click

from .rest import Json, Rest, asks
from .show import bytes_of, day, example, fields, table, tell

WATCH_S = 2.0


@click.group(epilog=example("fabric show --watch"))
def fabric() -> None:
    """The whole fabric: how it is, what it carries, who did what."""


def _lines(told: Json) -> dict[str, Any]:
    policy, hosts, drift = told["policy"], told["hosts"], told["drift"] or {}
    generation = None if policy is None else policy["generation"]
    following = sum(each["applied_generation"] == generation for each in told["switches"])
    windows = drift.get("windows") or []
    bounds = drift.get("off") or drift.get("drifted") or ("they hold" if windows else "no model is in force")
    return {
        "policy": "none in force" if policy is None else f"revision {told['revision']}, mode {policy['mode']}",
        "switches": f"{following} of {len(told['switches'])} follow it",
        "drifted": ", ".join(f"{name} ({why})" for name, why in told["switches_drifted"].items()) or "none",
        "hosts": f"{hosts['registered']} registered, {hosts['silent']} silent, {hosts['behind']} follow another policy",
        "unobserved": f"{sum(told['flows_unobserved'].values())} flows",
        "bounds": bounds["why"] if isinstance(bounds, dict) else bounds,
        "recording": told["recording"],
        "rollout": f"{told['running_rollout']} is running" if told["running_rollout"] else "none is running",
    }


@fabric.command("show", epilog=example("fabric show"))
@click.option("--watch", is_flag=True, help="Again every two seconds, until Ctrl-C.")
@asks
def show_fabric(rest: Rest, watch: bool, as_json: bool) -> None:
    """Policy, switches, hosts and bounds in a few lines."""
    while True:
        found = rest.ask("GET", "overview")
        if watch and sys.stdout.isatty():
            click.clear()
        if as_json:
            tell(found, True)
        else:
            fields(_lines(found))
        if not watch:
            return
        time.sleep(WATCH_S)


@fabric.command("flows", epilog=example("fabric flows --label monday"))
@click.option("--label", help="Of one recording; default: of all.")
@asks
def show_flows(rest: Rest, label: str | None, as_json: bool) -> None:
    """Sizes of the flows that hosts told of."""
    found = rest.ask("GET", "flows", "statistics", label=label)
    if as_json:
        tell(found, True)
        return
    fields(
        {
            "flows": found["flows"],
            "bytes": bytes_of(found["total_bytes"]),
            "mean": bytes_of(found["mean_bytes"]),
            "coverage": found["forecasts"]["coverage"],
            "labels": ", ".join(found["labels"]) or None,
        }
    )
    rows = ([share, bytes_of(size)] for share, size in found["quantile_bytes"].items())
    table(rows, "#SHARE OF FLOWS", "#UP TO", none="no flow was recorded")


@fabric.command("felt", epilog=example("fabric felt --last 20"))
@click.option("--last", type=click.IntRange(1, 360), default=30, show_default=True, help="So many windows of 10 s.")
@asks
def show_felt(rest: Rest, last: int, as_json: bool) -> None:
    """Show the slowdown of small flows that hosts measure.

    The latest last: how much longer their packets travel than they could.
    """
    found = rest.ask("GET", "felt")[-last:]
    if as_json:
        tell(found, True)
        return
    rows = (
        [day(each["at"]), each["generation"], f"{each['stretch']:.2f}", each["hosts"], each["connections"]]
        for each in found
    )
    table(rows, "WHEN", "#POLICY", "#TIMES, MEDIAN OF HOSTS", "#HOSTS", "#CONNECTIONS", none="no host measured any")


@fabric.command("record", epilog=example("fabric record monday"))
@click.argument("label", required=False)
@click.option("--end", is_flag=True, help="File flows under no name from now on.")
@asks
def record(rest: Rest, label: str | None, end: bool, as_json: bool) -> None:
    """Files flows under LABEL from now on."""
    if label is not None and end:
        raise click.UsageError("LABEL and --end exclude each other")
    if label is not None or end:
        found = rest.ask("PUT", "recording", body={"label": label})
    else:
        found = rest.ask("GET", "recording")
    known = ", ".join(found["labels"]) or "none"
    tell(found, as_json, f"recording: {found['label'] or 'under no name'}; labels: {known}")


@fabric.command("audit", epilog=example("fabric audit --last 20"))
@click.option("--last", type=click.IntRange(1, 1000), default=100, show_default=True, help="So many lines.")
@asks
def audit(rest: Rest, last: int, as_json: bool) -> None:
    """Who changed what, and who was refused, the latest first."""
    found = rest.ask("GET", "audit", last=last)
    if as_json:
        tell(found, True)
        return
    rows = ([day(each["at"]), each["actor"], each["action"], each["subject"]] for each in found)
    table(rows, "WHEN", "WHO", "WHAT", "ON", none="nothing yet")


@fabric.command("certificates", epilog=example("fabric certificates"))
@asks
def certificates(rest: Rest, as_json: bool) -> None:
    """Certificates, the first to end first."""
    found = rest.ask("GET", "certificates")
    if as_json:
        tell(found, True)
        return
    rows = ([each["name"], each["purpose"], day(each["ends_at"])] for each in found)
    table(rows, "CERTIFICATE", "FOR", "ENDS", none="none is known")
