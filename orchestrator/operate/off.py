"""`qclimb off` and `qclimb on`: the emergency exit, and the way back."""

import click

from .rest import Rest, asks
from .show import example, tell, warn


@click.command(epilog=example("off"))
@asks
def off(rest: Rest, as_json: bool) -> None:
    """Has all hosts mark nothing, at once.

    The rollout that runs is ended. It needs no revision and no recorded sizes. Switches stay as they are. `qclimb on`
    takes it back, and so does a rollout that is started afterwards.
    """
    found = rest.ask("PUT", "off")
    tell(found, as_json, "hosts are switched off: each marks nothing from its next poll on", "Back: qclimb on")
    if found["unkept"]:
        warn(f"it is in the orchestrator's memory alone, and a restart would forget it: {found['unkept']}")


@click.command(epilog=example("on"))
@asks
def on(rest: Rest, as_json: bool) -> None:
    """Has all hosts follow the policy in force again."""
    rest.ask("DELETE", "off")
    told = rest.ask("GET", "overview")
    revision = "no policy is in force" if told["revision"] is None else f"revision {told['revision']}"
    tell({"revision": told["revision"]}, as_json, f"hosts are switched on: {revision}")
