"""hostd's part in the kernel of one host, without its daemon: the tagger, and the kernel mode of a cgroup."""

from __future__ import annotations

from pathlib import Path

from qclimb.policy import Policy

from hostlib.hostd.kernel import KernelMode
from hostlib.hostd.place import Place
from hostlib.hostd.scope import Scope
from hostlib.hostd.tagger import Tagger
from lab.fabric.netns import entered
from lab.fabric.star import HOST_DEVICE
from lab.fabric.topology import FabricError


def load(netns: str, place: Place, policy: Policy, group: Path | None, *, use_filter: bool = True) -> None:
    """Leaves both in the kernel by this policy, pinned at `place`; None: no cgroup is served by the kernel mode.

    Raises: FabricError: the kernel refused it; says why.
    """
    groups = (group,) if group else ()
    tagger = Tagger(place, (HOST_DEVICE,), use_filter=use_filter, cgroups=groups)
    kernel = KernelMode(place, Scope(groups), tagger)
    with entered(netns):
        tagger.follow(policy)
        kernel.follow(policy)
    kernel.close()
    if problem := tagger.problem or kernel.problem:
        raise FabricError(f"the kernel's part at {netns}: {problem}")
