"""Quick ACKs on a device's routes: a drain then takes a round trip, else up to a delayed ACK (DESIGN.md 3.2).

`ip route change` replaces a route's metrics as a whole, so that what the route had is read and said again.
"""

import subprocess
from itertools import pairwise

from hostlib.hostd.errors import HostdError

TIMEOUT_S = 5.0


class RouteError(HostdError):
    """The routes could not be read or changed."""


def set_quickack(device: str) -> int:
    """Sets `quickack 1` on the device's unicast routes of the main table; returns on how many it is set now.

    Raises:
        RouteError: no such device, no right (CAP_NET_ADMIN), no `ip`; named, and nothing of the route changed.
    """
    count = 0
    for family in ("-4", "-6"):
        for line in _ip(family, "route", "show", "dev", device).splitlines():
            words = line.split()
            if not words or words[0] in ("fe80::/64", "multicast", "broadcast", "local", "unreachable", "anycast"):
                continue
            if not _has_quickack(words):
                _ip(family, "route", "change", *with_quickack(words), "dev", device)
            count += 1
    return count


def with_quickack(words: list[str]) -> list[str]:
    """A line of `ip route show dev D` as arguments of `ip route change`, with `quickack 1` and all else as it was.

    What the kernel reports and does not take (flags as `linkdown`, an expiry) is left out.
    """
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in ("linkdown", "dead", "pervasive", "offload", "trap", "notify", "rt_offload", "rt_trap"):
            continue
        if word in ("quickack", "expires", "error"):
            next(rest, None)
            continue
        if word == "lock" and kept[-1] == "rto_min":
            continue  # `ip` shows it and does not take it: rto_min always locks
        kept.append(word)
    return [*kept, "quickack", "1"]


def _has_quickack(words: list[str]) -> bool:
    return any(pair == ("quickack", "1") for pair in pairwise(words))


def _ip(*arguments: str) -> str:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RouteError(f"ip {' '.join(arguments)}: {error}; expected iproute2") from error
    if done.returncode:
        reason = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise RouteError(f"ip {' '.join(arguments)}: {reason}")
    return done.stdout
