"""What this kernel can do, found by trying it in a namespace of its own."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from lab.fabric.commands import Ip, Tc, run_all
from lab.fabric.queues import QueueProgram, Service, Shaper, reshape, shape
from lab.fabric.topology import QUEUES, FabricError

TOOLS = ("ip", "tc", "ethtool")
RATE_BPS = 25_000_000


def require_root_and_tools() -> None:
    """Raises: FabricError: not root, or a tool is missing."""
    if os.geteuid() != 0:
        raise FabricError("the fabric needs root, for it makes network namespaces; run it with sudo")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise FabricError(f"the command `{tool}` is missing; `make setup` installs it")


def shaper(netns: str) -> tuple[Shaper, list[str]]:
    """The first shaper whose every line this kernel takes, and a sentence on what it lacks; `netns` comes and goes.

    Raises:
        FabricError: no shaper with eight strict priorities at all.
    """
    run_all([Ip("", f"netns add {netns}")])
    try:
        run_all([Ip(netns, "link add name probe type veth peer name probe2")])
        if _works(netns, "ets"):
            return "ets", []
        if _works(netns, "htb"):
            return "htb", ["this kernel has no ets scheduler: strict priority is made by HTB's prio instead"]
    finally:
        run_all([Ip("", f"netns del {netns}")])
    raise FabricError("this kernel has neither ets nor HTB: strict-priority queues can't be made on it")


def _works(netns: str, kind: Shaper) -> bool:
    strict = QueueProgram(services=(Service(strict=True),) * QUEUES)
    lines = [*shape("probe", RATE_BPS, QueueProgram(), kind, 100), *reshape("probe", RATE_BPS, strict, kind)]
    try:
        run_all([Tc(netns, line) for line in lines])
    except FabricError:
        with suppress(FabricError):
            run_all([Tc(netns, "qdisc del dev probe root")])
        return False
    return True
