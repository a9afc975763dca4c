"""`qclimb policy`, `qclimb revision`, `qclimb rollout`: what is in force, what could be, and the way there."""

import json
import sys
from pathlib import Path
from typing import Any

import click
from qclimb.options import Finite, Refused

from .policies import policy_names
from .rest import Json, Rest, asks
from .show import bytes_of, counted, day, example, fields, follow, table, tell, warn

BODY_BYTES_MOST = 1 << 20
"""as the orchestrator takes"""
NUMBER = click.argument("number", type=click.IntRange(1))
UNMARKED = ("off", "observe")
"""Modes in which no flow meets a threshold."""


@click.group(epilog=example("policy show"))
def policy() -> None:
    """The policy in force."""


@policy.command("show", epilog=example("policy show"))
@asks
def show_policy(rest: Rest, as_json: bool) -> None:
    """What every host follows."""
    told = rest.ask("GET", "overview")
    found = told["policy"]
    if as_json:
        tell(found, True)
        return
    if told["off"] is not None:
        click.echo(off_line(told["off"]))
    if found is None:
        click.echo("no policy is in force: roll a revision out first")
        return
    fields({"revision": told["revision"], **{name: value for name, value in found.items() if name != "generation"}})


def off_line(off: Json) -> str:
    """That hosts are switched off."""
    unkept = f"; NOT KEPT: {off['unkept']}" if off["unkept"] else ""
    return f"all hosts are switched off since {day(off['at'])} by {off['by']}{unkept}"


@click.group(epilog=example("revision make --mode pias --load 0.6"))
def revision() -> None:
    """Revisions: thresholds, policy and intent, immutable."""


def _row(each: Json) -> list[Any]:
    policy = each["policy"]
    thresholds = " ".join(bytes_of(size).replace(" ", "") for size in each["threshold_bytes"])
    if policy["mode"] in UNMARKED:
        thresholds = "-"
    return [
        each["id"],
        policy["mode"],
        len(policy["dscp"]),
        policy["model_generation"] or None,
        thresholds,
        _made(each),
    ]


@revision.command("list", epilog=example("revision list"))
@asks
def list_revisions(rest: Rest, as_json: bool) -> None:
    """All revisions, the latest last."""
    found = rest.ask("GET", "revisions")
    if as_json:
        tell(found, True)
        return
    heads = ("#REVISION", "MODE", "#PRIORITIES", "#MODEL", "THRESHOLDS", "MADE")
    table(map(_row, found), *heads, none="no revision yet")


@revision.command("show", epilog=example("revision show 3"))
@NUMBER
@asks
def show_revision(rest: Rest, number: int, as_json: bool) -> None:
    """The revision NUMBER."""
    found = rest.ask("GET", "revisions", number)
    if as_json:
        tell(found, True)
        return
    fields(_summary(found))
    rows = (_class(each["config"], found["policy"]["mode"]) for each in _classes(found["intent"]))
    table(rows, "#PRIORITY", "#FROM", "#DSCP", "#QUEUE", "PATH", "#MAX SHARE", "#FORETOLD SHARE OF BYTES")
    for line in found["warnings"]:
        warn(line)


def _summary(found: Json) -> Json:
    """What the revision is, then the hosts' policy but for what the table of classes has."""
    policy = {key: value for key, value in found["policy"].items() if key not in ("generation", "threshold_bytes")}
    spines = found.get("spines")
    told: Json = {"revision": found["id"], "mode": policy.pop("mode"), "priorities": len(policy.pop("dscp"))}
    told |= {"model": policy.pop("model_generation") or None, "made": _made(found), "computed": found["optimised"]}
    told["buffer"] = (found.get("shares") or {}).get("reason")
    if spines is not None:
        policy.pop("spines", None)
        told |= {"spines": spines["names"], "wished": spines["wish"]["names"], "shares": spines["share"]}
    return told | policy


def _made(each: Json) -> str:
    return f"{day(each['created_at'])} by {each['created_by']}"


def _classes(intent: Json) -> list[Json]:
    (root,) = intent.values()
    return list(root["classes"]["class"])


def _class(told: Json, mode: str) -> list[Any]:
    begin = None if mode in UNMARKED else bytes_of(int(told["threshold-bytes"]))
    limits = (None if share is None else f"{100 * float(share):.3g} %" for share in map(told.get, SHARES))
    return [told["priority"], begin, told["dscp"], told["queue"], told["path"], *limits]


SHARES = ("max-share", "foretold-share")


@revision.command("changes", epilog=example("revision changes 3"))
@NUMBER
@asks
def show_changes(rest: Rest, number: int, as_json: bool) -> None:
    """A dry run: what a rollout of NUMBER would change.

    Exit status 1 where no switch could be asked.
    """
    found = rest.ask("GET", "revisions", number, "changes")
    errors = [each["error"] for each in found["switches"].values()]
    if as_json:
        tell(found, True)
    else:
        _show_changes(found)
    if errors and all(errors):
        sys.exit(1)


def _show_changes(found: Json) -> None:
    rows: list[list[Any]] = [["hosts", *_change(each)] for each in found["hosts"]]
    for name, told in found["switches"].items():
        rows += [[name, told["error"], None, None]] if told["error"] else []
        rows += [[name, *_change(each)] for each in told["changes"]]
    table(rows, "AT", "WHAT", "NOW", "THEN", none="nothing would change")


def _change(each: Json) -> list[Any]:
    return [each["path"], *(None if value is None else json.dumps(value) for value in (each["before"], each["after"]))]


@revision.command("make", epilog=example("revision make --mode qclimb --label monday --model 14829103847"))
@click.option(
    "--mode",
    type=click.Choice(["off", "observe", "pias", "qclimb"]),
    default="pias",
    show_default=True,
    help="Of the hosts.",
)
@click.option("--label", help="Whose sizes decide; default: all recorded ones.")
@click.option(
    "--load", type=Finite(0, 1, min_open=True, max_open=True), default=0.6, show_default=True, help="Expected."
)
@click.option("--priorities", type=click.IntRange(1, 64), help="How many; default: 8.")
@click.option("--model", type=click.IntRange(1), help="Generation of the model whose bounds hosts shall use.")
@click.option(
    "--threshold", "thresholds", type=click.IntRange(1), multiple=True, help="Bytes; repeat. Default: computed."
)
@click.option(
    "--body", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Further fields, a JSON file."
)
@click.option("--key", help="Idempotency-Key: the same line twice makes one revision.")
@asks
def make_revision(
    rest: Rest,
    mode: str,
    label: str | None,
    load: float,
    priorities: int | None,
    model: int | None,
    thresholds: tuple[int, ...],
    body: Path | None,
    key: str | None,
    as_json: bool,
) -> None:
    """Computes thresholds; changes nothing in the fabric."""
    wanted: Json = {"mode": mode, "load": load, "label": label, "priorities": priorities, "model": model}
    if thresholds:
        wanted["thresholds"] = list(thresholds)
    if body is not None:
        try:
            with body.open("rb") as opened:
                content = opened.read(BODY_BYTES_MOST + 1)
            if len(content) > BODY_BYTES_MOST:
                raise ValueError(f"more than {BODY_BYTES_MOST} bytes")
            more = json.loads(content.decode())
            if not isinstance(more, dict):
                raise TypeError(f"it is a {type(more).__name__}")
            wanted |= more
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise Refused(f"--body {body}: {error}, expected a JSON object") from None
    found = rest.ask("POST", "revisions", body=wanted, key=key)
    cuts = ", ".join(map(bytes_of, found["threshold_bytes"])) or "none"
    does = "hosts mark nothing" if found["policy"]["mode"] in UNMARKED else f"thresholds {cuts}"
    following = f"Next: qclimb rollout start {found['id']} --watch"
    tell(found, as_json, f"revision {found['id']}: {does}", following)
    for line in found["warnings"]:
        warn(line)


@click.group(epilog=example("rollout start 3 --wave 0.01 --wave 0.1 --soak-s 300 --watch"))
def rollout() -> None:
    """Rollouts: bring a revision into force, watch, undo."""


@rollout.command("list", epilog=example("rollout list"))
@asks
def list_rollouts(rest: Rest, as_json: bool) -> None:
    """All rollouts, the latest last."""
    found = rest.ask("GET", "rollouts")
    if as_json:
        tell(found, True)
        return
    rows = (
        [
            *(each["id"], each["revision"], each["phase"], day(each["created_at"]), each["created_by"]),
            *(counted(each["switches"]), counted(each["hosts"]), each["error"]),
        ]
        for each in found
    )
    heads = ("#ROLLOUT", "#REVISION", "PHASE", "BEGUN", "BY", "SWITCHES", "HOSTS", "WHY")
    table(rows, *heads, none="no rollout yet")


@rollout.command("show", epilog=example("rollout show 2 --watch"))
@NUMBER
@click.option("--watch", is_flag=True, help="Until it has ended; exit status 1 where it is not done.")
@asks
def show_rollout(rest: Rest, number: int, watch: bool, as_json: bool) -> None:
    """How far the rollout NUMBER has got, by device."""
    if watch:
        _watch(rest, number, as_json)
        return
    found = rest.ask("GET", "rollouts", number)
    if as_json:
        tell(found, True)
        return
    fields(
        {
            **{"rollout": found["id"], "revision": found["revision"], "phase": found["phase"], "why": found["error"]},
            **{"begun": _made(found), "wave": f"{found['wave'] + 1} of {len(found['plan']['waves']) + 1}"},
            **_plan(found["plan"]),
        }
    )
    name_of = policy_names(rest)
    rows = (
        [kind, name, step["phase"], name_of(step["applied_generation"]), step["error"]]
        for kind, name, step in _steps(found)
    )
    table(rows, "KIND", "NAME", "PHASE", "FOLLOWS", "WHY", none="it had no devices")


def _plan(plan: Json) -> Json:
    """How it goes on, each field with its unit."""
    waves = ", ".join(f"{count} switches" for count in plan["waves"])
    drops, slowdown = plan["drops_most"], plan["slowdown_most"]
    return {
        "waves": f"{waves}, then all" if waves else "all switches at once",
        "soak": f"{plan['soak_s']:g} s",
        "may be away": f"{plan['absent_most']} switches",
        "may drop": "any" if drops is None else f"{100 * drops:.3g} % of the first priority's packets",
        "may slow down": "any" if slowdown is None else f"{slowdown:g} times, small flows",
    }


def _steps(found: Json) -> Any:
    for kind in ("switches", "hosts"):
        for name, step in found[kind].items():
            yield kind, name, step


def _watch(rest: Rest, number: int, as_json: bool) -> None:
    last = follow(rest.events("rollouts", number, "events"), as_json)
    if last.get("phase") != "done":
        sys.exit(1)


@rollout.command("start", epilog=example("rollout start 3 --wave 0.01 --wave 0.1 --soak-s 300 --watch"))
@click.argument("revision", type=click.IntRange(1))
@click.option(
    "--wave",
    "waves",
    type=Finite(0, 1, min_open=True),
    multiple=True,
    help="Share of the switches after a wave; repeat. Default: all.",
)
@click.option("--soak-s", type=Finite(0, 86_400), default=0, show_default=True, help="After a wave.")
@click.option("--absent-most", type=click.IntRange(0), help="So many switches may be away; default: one in twenty.")
@click.option("--slowdown-most", type=Finite(1.1, 1000), help="Small flows may be so many times as slow; default: 3.")
@click.option("--drops-most", type=Finite(0, 1), help="Share of first-served packets that may drop; default: 0.01.")
@click.option("--watch", is_flag=True, help="Until it has ended; exit status 1 where it is not done.")
@click.option("--key", help="Idempotency-Key: the same line twice begins one rollout.")
@asks
def start_rollout(
    rest: Rest,
    revision: int,
    waves: tuple[float, ...],
    soak_s: float,
    absent_most: int | None,
    slowdown_most: float | None,
    drops_most: float | None,
    watch: bool,
    key: str | None,
    as_json: bool,
) -> None:
    """Begins to bring REVISION into force."""
    body: Json = {"revision": revision, "waves": list(waves), "soak_s": soak_s, "absent_most": absent_most}
    gates = {"slowdown_most": slowdown_most, "drops_most": drops_most}
    body |= {name: value for name, value in gates.items() if value is not None}
    found = rest.ask("POST", "rollouts", body=body, key=key)
    if watch:
        _watch(rest, found["id"], as_json)
        return
    tell(found, as_json, f"rollout {found['id']} of revision {revision} has begun")


def _steer(what: str, help_text: str) -> None:
    @rollout.command(what, help=help_text, epilog=example(f"rollout {what} 2"))
    @NUMBER
    @asks
    def steer(rest: Rest, number: int, as_json: bool) -> None:
        found = rest.ask("POST", "rollouts", number, what)
        tell(found, as_json, f"rollout {number}: {what} is asked; it is {found['phase']}")


_steer("pause", "Begins no further switch of the rollout NUMBER.")
_steer("resume", "Goes on with the rollout NUMBER.")
_steer("abort", "Ends the rollout NUMBER: its switches get back what they had.")
