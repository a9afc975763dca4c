"""`qclimb lab vasic`: recorded histories of rows against the lab's virtual ASIC."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

EXAMPLE = """\b
Example:
  $ cat cases.json
  {"cases": [{"case": "a map", "steps": [
    {"write": [["CONFIG_DB", "HSET", "DSCP_TO_TC_MAP|M", {"8": "1"}],
               ["CONFIG_DB", "HSET", "PORT_QOS_MAP|Ethernet0", {"dscp_to_tc_map": "M"}]],
     "then": {"ports": {"Ethernet0": {"dscp_to_tc": {"8": 1}}}}}]}]}
  $ qclimb lab vasic cases.json
  1 case, 1 step: all as told
"""


@click.command(epilog=EXAMPLE, short_help="Replay histories of rows against the virtual ASIC.")
@click.argument("cases", type=click.Path(path_type=Path), metavar="CASES.json")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of text.")
def vasic(cases: Path, as_json: bool) -> None:
    """Replay cases through the virtual ASIC: rows in, ASIC out.

    CASES.json has histories of rows; each step after which the virtual ASIC holds something else is printed.
    Compared are ports, switch, acl, routes, groups, pending and state_db. Exit status 1 if a step differs.
    """
    from lab.control.vasic.replay import CasesError, differences, read

    try:
        ports, found = read(cases)
    except CasesError as wrong:
        raise click.UsageError(str(wrong)) from None
    differing = [each for case in found for each in differences(case, ports)]
    steps = sum(len(case.steps) for case in found)
    if as_json:
        told = {"cases": len(found), "steps": steps, "differences": [dataclasses.asdict(each) for each in differing]}
        click.echo(json.dumps(told, indent=2))
    else:
        for each in differing:
            click.echo(f"{each.case}, step {each.step}: {each.what}")
            click.echo(f"  expected {json.dumps(each.expected)}")
            click.echo(f"  found    {json.dumps(each.found)}")
        counts = f"{_counted(len(found), 'case')}, {_counted(steps, 'step')}"
        differ = len({(each.case, each.step) for each in differing})
        click.echo(f"{counts}: " + (f"{_counted(differ, 'step')} differ" if differ else "all as told"))
    if differing:
        raise SystemExit(1)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
