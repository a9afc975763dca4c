"""Receive windows by the kernel mode at a star's receiver: its programs run without the library, in a cgroup."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from qclimb.policy import Policy

from hostlib.hostd.kernel import remove as remove_kernel_mode
from hostlib.hostd.place import Place
from hostlib.hostd.tagger import mount_bpf, remove
from lab.fabric.cgroups import cgroup, joined
from lab.fabric.marking import load
from lab.fabric.netns import entered
from lab.fabric.star import Star

Join = Callable[[list[str]], list[str]]
"""Makes a command one that runs where the kernel mode serves, if anywhere."""


def name_of(star: Star) -> str:
    """Of the cgroup: what a killed run left of its own is in nobody's way."""
    return f"{star.prefix}-{os.getpid()}"


@contextmanager
def served(star: Star, policy: Policy | None) -> Iterator[Join]:
    """The kernel mode at the receiver while the block runs, by this policy; None: nothing is loaded.

    Raises: FabricError: the kernel refused it; says why.
    """
    if policy is None:
        yield lambda argv: argv
        return
    with ExitStack() as stack:
        group = stack.enter_context(cgroup(name_of(star)))
        place = Place(Path(stack.enter_context(TemporaryDirectory())))
        pins = place.directory / "bpf"
        mount_bpf(pins)
        stack.callback(subprocess.run, ["umount", "-l", str(pins)], check=True)
        netns = star.netns(star.receiver)
        stack.callback(_take_away, netns, place)
        load(netns, place, policy, group)
        yield partial(joined, group=group)


def _take_away(netns: str, place: Place) -> None:
    with entered(netns):
        remove_kernel_mode(place.directory / "bpf")
        remove(place)
