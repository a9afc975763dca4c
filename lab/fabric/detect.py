"""What this kernel can do, found by trying it in a namespace of its own."""

from __future__ import annotations

import os
import shutil

from lab.fabric.commands import Ip, Tc, run_all
from lab.fabric.queues import Shaper
from lab.fabric.topology import FabricError

TOOLS = ("ip", "tc", "ethtool")


def require_root_and_tools() -> None:
    """Raises: FabricError: not root, or a tool is missing."""
    if os.geteuid() != 0:
        raise FabricError("the fabric needs root, for it makes network namespaces; run it with sudo")
    for tool in TOOLS:
        if shutil.which(tool) is None:
            raise FabricError(f"the command `{tool}` is missing; `make setup` installs it")


def shaper(netns: str) -> tuple[Shaper, list[str]]:
    """The best of the shapers that the kernel has, and a sentence on what it lacks; `netns` is made and removed.

    Raises:
        FabricError: no shaper with eight strict priorities at all.
    """
    run_all([Ip("", f"netns add {netns}")])
    try:
        run_all([Ip(netns, "link add name probe type veth peer name probe2")])
        tbf = "qdisc add dev probe root handle 1: tbf rate 25mbit burst 3028 limit 100000"
        if _works(netns, tbf, "qdisc add dev probe parent 1:1 handle 10: ets bands 8 strict 8"):
            return "ets", []
        _works(netns, "qdisc del dev probe root")
        if _works(netns, "qdisc add dev probe root handle 1: htb default 10"):
            return "htb", ["this kernel has no ets scheduler: strict priority is made by HTB's prio instead"]
    finally:
        run_all([Ip("", f"netns del {netns}")])
    raise FabricError("this kernel has neither ets nor HTB: strict-priority queues can't be made on it")


def _works(netns: str, *lines: str) -> bool:
    try:
        run_all([Tc(netns, line) for line in lines])
    except FabricError:
        return False
    return True
