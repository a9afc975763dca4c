"""`qclimb model`: forests at the orchestrator, and, where the lab is installed, from files."""

import click
from qclimb.extras import add_installed

from .rest import Rest, asks
from .show import day, example, fields, table, tell


@click.group(epilog=example("model make monday"))
def model() -> None:
    """Models: forests at the orchestrator, and from files."""


@model.command("list", epilog=example("model list"))
@asks
def list_models(rest: Rest, as_json: bool) -> None:
    """All models at the orchestrator, the latest last."""
    found = rest.ask("GET", "models")
    if as_json:
        tell(found, True)
        return
    rows = (
        [each["generation"], each["label"], day(each["created_at"]), each["report"].get("coverage")] for each in found
    )
    table(rows, "#MODEL", "LABEL", "MADE", "#COVERAGE", none="no model yet")


@model.command("show", epilog=example("model show 14829103847"))
@click.argument("generation", type=click.IntRange(1))
@asks
def show_model(rest: Rest, generation: int, as_json: bool) -> None:
    """The report on the model GENERATION."""
    found = rest.ask("GET", "models", generation)
    if as_json:
        tell(found, True)
        return
    fields({**found["report"], "generation": generation, "label": found["label"], "made": day(found["created_at"])})


@model.command("make", epilog=example("model make monday"))
@click.argument("label")
@click.option("--trees", type=click.IntRange(1, 200), help="Of the forest; default: the orchestrator's.")
@click.option("--depth", type=click.IntRange(1, 16), help="Of each tree, at most; default: the orchestrator's.")
@click.option("--key", help="Idempotency-Key: the same line twice makes one model.")
@asks
def make_model(rest: Rest, label: str, trees: int | None, depth: int | None, key: str | None, as_json: bool) -> None:
    """Has a forest trained on the recording LABEL; takes minutes."""
    wanted = {"label": label, "trees": trees, "depth": depth}
    body = {name: value for name, value in wanted.items() if value is not None}
    found = rest.ask("POST", "models", body=body, key=key)
    tell(found, as_json, f"model {found['generation']} of {label}: coverage {found['report']['coverage']}")


add_installed(model, "qclimb.model_commands")
