"""`qclimb lab run drift`: its options."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from qclimb.options import Finite

from lab.drift.settings import DriftSettings
from lab.workload.cli import one_sentence, results_option

DEFAULT = DriftSettings()


@click.command(
    epilog="\b\nExample:\n  sudo qclimb lab run drift\n  sudo qclimb lab run drift --on-drift offer --document drift.md"
)
@click.option(
    "--on-drift",
    type=click.Choice(["flag", "offer", "rollout"]),
    default=DEFAULT.on_drift,
    show_default=True,
    help="How far the orchestrator goes by itself to a new model; what it offers is then accepted as by an operator.",
)
@click.option("--flows-per-s", type=Finite(10, 5000), default=DEFAULT.flows_per_s, show_default=True, help="Asked for.")
@click.option(
    "--observe", "observe_s", type=Finite(2), default=DEFAULT.observe_s, show_default=True, help="s recorded."
)
@click.option(
    "--before",
    "before_s",
    type=Finite(5),
    default=DEFAULT.before_s,
    show_default=True,
    help="s to the change.",
)
@click.option("--after", "after_s", type=Finite(5), default=DEFAULT.after_s, show_default=True, help="s after it.")
@click.option(
    "--model-max-age",
    "model_max_age_s",
    type=Finite(0, min_open=True),
    default=DEFAULT.model_max_age_s,
    show_default=True,
    help="s; the bounds of an older model are switched off.",
)
@click.option("--seed", type=click.IntRange(0, 9999), default=DEFAULT.seed, show_default=True, help="Of the traffic.")
@click.option("--prefix", default=DEFAULT.prefix, show_default=True, help="Of the network namespaces' names.")
@click.option("--document", type=click.Path(path_type=Path, dir_okay=False), help="The Markdown file to write.")
@click.option("--stored", is_flag=True, help="Measure nothing: report what an earlier run left.")
@results_option(str(DEFAULT.folder))
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def drift(document: Path | None, stored: bool, as_json: bool, **options: Any) -> None:
    """Traffic that changes under a model in force.

    Coverage falls, the orchestrator flags it, trains, rolls out.

    Four minutes. Exit 1 where a claim of the report does not hold (with --on-drift flag only the first two are made).
    """
    if options["observe_s"] >= options["before_s"]:
        raise click.BadParameter(
            f"{options['observe_s']:g} s, expected less than --before {options['before_s']:g} s", param_hint="--observe"
        )
    with one_sentence():
        from rich.console import Console

        from lab.drift.report import judged, load, write
        from lab.drift.run import run_drift
        from lab.workload.programs import WorkloadError

        settings = DriftSettings(**options)
        path = settings.folder / "seen.json"
        if stored and not path.exists():
            raise WorkloadError(f"{path} is missing, expected what an earlier run left")
        seen = load(path) if stored else run_drift(settings, Console(stderr=True))
        told = write(seen, document or settings.folder / "drift.md")
    found = judged(seen)
    if as_json:
        click.echo(json.dumps({**asdict(seen), "judged": [{"claim": claim, "holds": good} for claim, good in found]}))
    else:
        click.echo(told)
    sys.exit(0 if all(good for _, good in found) else 1)
