"""Tables, and bars of what goes on, for people; JSON for programs."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from qclimb.text import printable

Json = dict[str, Any]

COLOURS = {"done": "green", "applied": "green", "running": "cyan", "paused": "yellow", "absent": "yellow"}
GONE_WRONG = {"failed", "rolled-back", "stranded", "unsure"}


def example(line: str) -> str:
    """The end of a command's help."""
    return f"\b\nExample:\n  qclimb {line}"


def tell(found: Any, as_json: bool, *lines: str) -> None:
    """`lines` for people, the answer for programs."""
    click.echo(json.dumps(found) if as_json else "\n".join(map(printable, lines)))


def warn(line: str) -> None:
    """What the answer has that is easily overlooked, beside it on standard error."""
    click.echo(printable(f"warning: {line}"), err=True)


def table(rows: Iterable[Sequence[Any]], *heads: str, none: str = "none") -> None:
    """Rows under heads; a head that begins with # has numbers below it. `none`: where there are no rows."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        click.echo(none)
        return
    made = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        made.add_column(head.removeprefix("#"), justify="right" if head.startswith("#") else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("-" if cell is None else printable(str(cell)), style=_colour(cell)) for cell in row))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console.width = 200
    console.print(made)


def _colour(cell: Any) -> str:
    text = str(cell)
    return "red" if text in GONE_WRONG else COLOURS.get(text, "")


def fields(found: Mapping[str, Any]) -> None:
    """One field a line, as people read it."""
    wide = max(map(len, found), default=0)
    for name, value in found.items():
        click.echo(printable(f"{name:{wide}}  {said(name, value)}"))


def said(name: str, value: Any) -> str:
    """A field of an answer as people read it: no JSON, no seconds since 1970."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {said(key, each)}" for key, each in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(said(name, each) for each in value) or "-"
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_at"):
        return day(value)
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return bytes_of(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def bytes_of(count: float | None) -> str:
    """As people say it: 12.3 KB."""
    if count is None:
        return "-"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def ago(seconds: float | None) -> str:
    """Since a time (s since 1970)."""
    if seconds is None:
        return "never"
    past = max(time.time() - seconds, 0)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if past >= size:
            return f"{past / size:.0f} {unit} ago"
    return f"{past:.0f} s ago"


def day(seconds: float | None) -> str:
    """A date and time, this machine's."""
    return "-" if seconds is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def counted(phases: Mapping[str, int]) -> str:
    """`3 applied, 1 absent`."""
    return printable(", ".join(f"{count} {phase}" for phase, count in phases.items() if count)) or "-"


def follow(events: Iterable[Json], as_json: bool) -> Json:
    """Bars of a rollout's events until they end, on a terminal; else a line each. The last event."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    last: Json = {}
    console = Console()
    if as_json or not console.is_terminal:
        for last in events:
            tell(last, as_json, _line(last))
        return last
    columns = (TextColumn("{task.description:9}"), BarColumn(), TextColumn("{task.fields[counts]}", markup=False))
    with Progress(*columns, console=console) as progress:
        bars = {kind: progress.add_task(kind, total=None, counts="") for kind in ("switches", "hosts")}
        for last in events:
            for kind, bar in bars.items():
                phases = last[kind]
                done = sum(phases.get(phase, 0) for phase in ("applied", "absent", "restored"))
                total = sum(phases.values())
                progress.update(bar, total=max(total, 1), completed=done if total else 1, counts=counted(phases))
    tell(last, False, _line(last))
    return last


def _line(told: Json) -> str:
    waves = len(told["plan"]["waves"]) + 1
    wave = f"wave {min(told['wave'] + 1, waves)} of {waves}, " if waves > 1 else ""
    error = f": {told['error']}" if told["error"] else ""
    devices = "; ".join(f"{kind}: {counted(told[kind])}" for kind in ("switches", "hosts") if told[kind])
    return f"rollout {told['id']} {told['phase']}{error} ({wave}{devices or 'no devices'})"
