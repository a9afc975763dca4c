"""Commands as values, and the one function that runs them.

A plan is a list of `Ip`, `Tc` and `Write`; neighbours of one kind in one namespace become one process (`ip -batch`,
`tc -batch`, one shell), since a process costs more than all that it does here.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from shlex import quote

from lab.fabric.topology import FabricError

DEADLINE_S = 300


@dataclass(frozen=True)
class Ip:
    """One line for `ip -batch`; `netns` empty = where we are."""

    netns: str
    line: str


@dataclass(frozen=True)
class Tc:
    """One line for `tc -batch`."""

    netns: str
    line: str


@dataclass(frozen=True)
class Write:
    """A value for a file below /proc/sys or /sys of a namespace; `optional`: a kernel without that file is fine."""

    netns: str
    path: str
    value: str
    optional: bool = False

    @property
    def line(self) -> str:
        """The same as a line of shell."""
        if not self.optional:
            return f"printf %s {quote(self.value)} > {quote(self.path)}"
        return f"[ ! -e {quote(self.path)} ] || printf %s {quote(self.value)} > {quote(self.path)}"


@dataclass(frozen=True)
class Ethtool:
    """Arguments of `ethtool`; features that a kernel lacks are no error."""

    netns: str
    arguments: str

    @property
    def line(self) -> str:
        """The same as a line of shell."""
        return f"ethtool {self.arguments} >&2 || true"


Command = Ip | Tc | Write | Ethtool


def sysctl(netns: str, name: str, value: str | int, optional: bool = False) -> Write:
    """A sysctl by its dotted name."""
    return Write(netns, "/proc/sys/" + name.replace(".", "/"), str(value), optional)


def _tool(command: Command) -> str:
    return {Ip: "ip", Tc: "tc", Write: "sh", Ethtool: "sh"}[type(command)]


def run_all(commands: Iterable[Command]) -> None:
    """Runs a plan in order.

    Raises:
        FabricError: a tool refused a line; carries the tool's words.
    """
    for (tool, netns), group in groupby(commands, key=lambda c: (_tool(c), c.netns)):
        lines = [command.line for command in group]
        inside = ["-n", netns] if netns else []
        if tool == "sh":
            argv = (["ip", "netns", "exec", netns] if netns else []) + ["sh", "-es"]
        else:
            argv = [tool, *inside, "-batch", "-"]
        try:
            done = subprocess.run(
                argv, input="\n".join(lines) + "\n", text=True, capture_output=True, timeout=DEADLINE_S, check=False
            )
        except FileNotFoundError as missing:
            raise FabricError(f"the command `{missing.filename}` is missing; `make setup` installs it") from None
        except subprocess.TimeoutExpired:
            raise FabricError(f"`{' '.join(argv)}` did not end within {DEADLINE_S} s") from None
        if done.returncode:
            words = done.stderr.strip() or done.stdout.strip()
            raise FabricError(f"`{' '.join(argv)}` failed: {words} (of {len(lines)} lines, the first: {lines[0]})")
