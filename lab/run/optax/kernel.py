"""Receive windows by the kernel mode at a star's receiver: its programs run without the library, in a cgroup."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from qclimb.policy import Policy

from hostlib.hostd.kernel import remove as remove_kernel_mode
from hostlib.hostd.place import Place
from hostlib.hostd.tagger import remove
from lab.fabric import cgroups, state
from lab.fabric.marking import load
from lab.fabric.netns import entered
from lab.fabric.star import Star
from lab.fabric.topology import FabricError

Join = Callable[[list[str]], list[str]]
"""Makes a command one that runs where the kernel mode serves, if anywhere."""


@contextmanager
def served(star: Star, policy: Policy | None) -> Iterator[Join]:
    """The kernel mode at the receiver while the block runs, by this policy; None: nothing is loaded.

    Raises: FabricError: the kernel refused it; says why.
    """
    if policy is None:
        yield lambda argv: argv
        return
    with ExitStack() as stack:
        netns, place = star.netns(star.receiver), Place(state.star_directory(star.prefix))
        if (group := cgroups.path_of(netns)).exists():
            raise FabricError(f"the cgroup {group} is there already; choose another prefix")
        state.save_star(star.prefix, star.namespaces, group)
        stack.enter_context(cgroups.cgroup(netns))
        pins = place.directory / "bpf"
        state.mount_bpf(pins)
        stack.callback(state.unmount, pins)
        stack.callback(_take_away, netns, place)
        load(netns, place, policy, group)
        yield partial(cgroups.joined, group=group)


def _take_away(netns: str, place: Place) -> None:
    with entered(netns):
        remove_kernel_mode(place.directory / "bpf")
        remove(place)
