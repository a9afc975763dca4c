"""`qclimb host` and `qclimb switch`: what there is, and how it is."""

from typing import Any

import click

from .policies import policy_names
from .rest import Json, Rest, asks
from .show import ago, counted, example, fields, table, tell

NAME = click.argument("name")


@click.group(epilog=example("switch add l1 192.0.2.11:9339"))
def switch() -> None:
    """Switches: list, register, forget."""


@switch.command("list", epilog=example("switch list"))
@asks
def list_switches(rest: Rest, as_json: bool) -> None:
    """All switches: what they applied, and what they differ in."""
    found = rest.ask("GET", "switches")
    if as_json:
        tell(found, True)
        return
    told = rest.ask("GET", "traffic")["switches"]
    overview = rest.ask("GET", "overview")
    drifts, name_of = overview["switches_drifted"], policy_names(rest, overview)

    def row(each: Json) -> list[Any]:
        seen = told.get(each["name"], {})
        state = seen.get("error") or drifts.get(each["name"]) or seen.get("verification") or "not asked yet"
        return [each["name"], each["role"], each["address"], name_of(each["applied_generation"]), state]

    table(map(row, found), "NAME", "ROLE", "ADDRESS", "APPLIED", "STATE", none="no switch is registered")


@switch.command("show", epilog=example("switch show l1"))
@NAME
@asks
def show_switch(rest: Rest, name: str, as_json: bool) -> None:
    """The switch NAME, and what it carried by priority."""
    found = rest.ask("GET", "switches", name)
    told = rest.ask("GET", "traffic")["switches"].get(name)
    if as_json:
        tell({**found, "traffic": told}, True)
        return
    applied = policy_names(rest)(found["applied_generation"])
    fields({**{key: value for key, value in found.items() if key != "applied_generation"}, "applied": applied})
    if told is None:
        return
    fields(
        {"seen": ago(told["seen_at"]), "error": told["error"], "drift": told["drift"], "ports": counted(told["ports"])}
    )
    table(
        [
            [priority, _per_s(each["bytes_per_s"]), _per_s(each["packets_per_s"]), _per_s(each["dropped_per_s"])]
            for priority, each in told["priorities"].items()
        ],
        "#PRIORITY",
        "#BYTES/S",
        "#PACKETS/S",
        "#DROPS/S",
        none="what it carries is known after two looks",
    )


def _per_s(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:.1f}"


@switch.command("add", epilog=example("switch add l1 192.0.2.11:9339 --role leaf"))
@NAME
@click.argument("address")
@click.option("--role", type=click.Choice(["leaf", "spine"]), default="leaf", show_default=True, help="Its tier.")
@click.option("--server-name", help="That its certificate has, where that is not the address.")
@asks
def add_switch(rest: Rest, name: str, address: str, role: str, server_name: str | None, as_json: bool) -> None:
    """Registers the switch NAME.

    ADDRESS is its gNMI server's, host:port. A switch that is known is told to be there now.
    """
    body = {"address": address, "role": role, "server_name": server_name}
    tell(rest.ask("PUT", "switches", name, body=body), as_json, f"switch {name} is registered at {address}")


@switch.command("remove", epilog=example("switch remove l1"))
@NAME
@asks
def remove_switch(rest: Rest, name: str, as_json: bool) -> None:
    """Forgets the switch NAME; what it is configured to do stays."""
    tell(rest.ask("DELETE", "switches", name), as_json, f"switch {name} is forgotten; its configuration stays")


@click.group(epilog=example("host add h1"))
def host() -> None:
    """Hosts: list, register, forget."""


@host.command("list", epilog=example("host list --standing-out"))
@click.option("--standing-out", is_flag=True, help="Only those that are silent or follow another policy, 100 of each.")
@asks
def list_hosts(rest: Rest, standing_out: bool, as_json: bool) -> None:
    """All hosts, their policies, their last reports."""
    if standing_out:
        told = rest.ask("GET", "overview")
        found = told["silent_hosts"] + told["behind_hosts"]
    else:
        found = rest.ask("GET", "hosts")
    if as_json:
        tell(found, True)
        return
    name_of = policy_names(rest)
    rows = ([each["name"], name_of(each["policy_generation"]), ago(each["seen_at"])] for each in found)
    table(rows, "NAME", "POLICY", "LAST REPORT", none="no host stands out" if standing_out else "no host is registered")


@host.command("show", epilog=example("host show h1"))
@NAME
@asks
def show_host(rest: Rest, name: str, as_json: bool) -> None:
    """The host NAME."""
    found = rest.ask("GET", "hosts", name)
    if as_json:
        tell(found, True)
        return
    policy = policy_names(rest)(found["policy_generation"])
    fields({"name": found["name"], "policy": policy, "last report": ago(found["seen_at"])})


@host.command("add", epilog=example("host add h1"))
@NAME
@asks
def add_host(rest: Rest, name: str, as_json: bool) -> None:
    """Registers the host NAME.

    `qclimb token make host NAME` makes its token.
    """
    tell(rest.ask("PUT", "hosts", name), as_json, f"host {name} is registered")


@host.command("remove", epilog=example("host remove h1"))
@NAME
@asks
def remove_host(rest: Rest, name: str, as_json: bool) -> None:
    """Forgets the host NAME, and revokes its tokens."""
    tell(rest.ask("DELETE", "hosts", name), as_json, f"host {name} is forgotten, its tokens are revoked")
