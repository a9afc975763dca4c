"""Shares of the balanced class: what routing does of them, and what a person can tell FRR so that it does; purely.

SONiC's routes are fpmsyncd's: what anybody else writes there is gone at FRR's next update. So the shares are only
compared with the weights that ROUTE_TABLE has, and said in FRR's words: the bandwidth of each BGP neighbour, by which
zebra weighs next hops (FRR's "set extcommunity bandwidth"; weights have 8 bits).
"""

from collections.abc import Iterable, Mapping

from qclimb.intent import PathWeights

from switchd.paths import Network
from switchd.rows import Row
from switchd.uplinks import Uplinks

ACTIVE, EQUAL_COST, DOWN = "active", "equal-cost", "down"
TOLERANCE = 0.01
"""of a share: more than half of a step of 1/255"""
WHOLE = 1000
"""Mb/s that FRR is told for all spines together"""


def path_rows(wanted: PathWeights | None, uplinks: Uplinks, spines: Mapping[str, Row], now: Network) -> dict[str, Row]:
    """A row for each spine with a share: share, status, reason, and FRR's lines that would make it so.

    spines  what `paths.steer` says of them
    """
    if wanted is None:
        return {}
    shares = dict(wanted.share)
    reason = why_not(shares, uplinks, now)
    found = {}
    for spine, share in shares.items():
        told = spines.get(spine, {})
        row = {"share": f"{share:.9f}", "status": ACTIVE}
        if told.get("status") != "up":
            row |= {"status": DOWN, "reason": told.get("reason", "no uplink leads there")}
        elif reason:
            row |= {"status": EQUAL_COST, "reason": f"weights: not applied ({reason})"}
        hops = [hop.partition("@")[0] for hop in told.get("next_hops", "").split(",") if hop]
        row["frr"] = "\n".join(snippet(spine, share, hops))
        found[spine] = row
    return found


def why_not(shares: Mapping[str, float], uplinks: Uplinks, now: Network) -> str:
    """Why routes do not share as wanted; empty where all that go by several of the spines do."""
    spine_of = {link: spine for spine, links in uplinks.of.items() for link in links}
    seen = 0
    for to, route in now.routes.items():
        hops = [hop for hop in route.hops if hop.is_gateway and hop.interface in spine_of]
        if len({spine_of[hop.interface] for hop in hops}) < 2:
            continue
        seen += 1
        has = dict.fromkeys(shares, 0.0)
        for hop in hops:
            spine = spine_of[hop.interface]
            has[spine] = has.get(spine, 0) + (hop.weight or 1)
        total = sum(has.values())
        whole = sum(shares.get(spine, 0) for spine, weight in has.items() if weight) or 1.0
        is_far = any(
            abs(weight / total - shares.get(spine, 0) / whole) > TOLERANCE for spine, weight in has.items() if weight
        )
        if is_far:
            told = ", ".join(f"{spine} {weight / total:.3f}" for spine, weight in has.items())
            return f"the routes are FRR's, and {to} has {told}; `show qclimb frr` tells what to configure there"
        members = {f"{hop.address}@{hop.interface}": hop.weight or 1 for hop in hops}
        if now.groups is not None and len(hops) == len(route.hops) and not _is_grouped(members, now.groups):
            return f"the ASIC has no next-hop group for {to} with these weights"
    return "" if seen else "APPL_DB has no route by several of these spines"


def _is_grouped(members: Mapping[str, int], groups: Iterable[Mapping[str, int]]) -> bool:
    """Whether a group of the ASIC has just these members, and shares among them as near as routes must have them."""
    total = sum(members.values())
    for group in groups:
        whole = sum(group.values())
        is_same = whole and group.keys() == members.keys()
        if is_same and all(abs(weight / whole - members[hop] / total) <= TOLERANCE for hop, weight in group.items()):
            return True
    return False


def snippet(spine: str, share: float, addresses: list[str]) -> list[str]:
    """FRR's lines for one spine: what comes from it is weighed by its share."""
    name = f"QCLIMB_{spine}"
    lines = [f"route-map {name} permit 10", f" set extcommunity bandwidth {max(1, round(share * WHOLE))}", "exit"]
    for address in addresses:
        family = "ipv6" if ":" in address else "ipv4"
        lines += ["router bgp", f" address-family {family} unicast", f"  neighbor {address} route-map {name} in"]
        lines += [" exit-address-family", "exit"]
    return lines
