"""What schedules programs' flows in the lab. Known everywhere, and imports nothing: it stands in commands' help."""

from typing import Literal, get_args

Scheduler = Literal["library", "kernel"]
"""libqclimb.so, or the kernel mode of the host's hostd, without it."""
SCHEDULERS: tuple[Scheduler, ...] = get_args(Scheduler)
