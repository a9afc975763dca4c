"""`python -m lab.control.routing --fabric PREFIX`: what FRR, fpmsyncd, neighsyncd and intfmgrd do on SONiC's switches.

One process for all switches of a fabric. It follows each switch's kernel (`ip monitor`): routes, neighbours and
addresses become ROUTE_TABLE, NEIGH_TABLE and INTF_TABLE of that switch's APPL_DB, by ProducerStateTable's protocol. The
virtual ASIC forwards by those rows.

The routes between racks are its own, as BGP would have them: a spine tells of the racks that its links reach, a leaf
has a rack by every spine that tells of it. It also takes the place of whoever configures FRR: the lines that switchd
gives for FRR (QCLIMB_PATH_STATE, field frr) become weights of these routes, as zebra makes them of BGP's bandwidths.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import FrameType
from typing import Any

import redis

from lab.control.vasic.rows import APPL_DB, STATE_DB, connect
from lab.fabric import state
from lab.fabric.commands import Ip, run_all
from lab.fabric.plan import neighbour_line, netns_of, peer_address
from lab.fabric.topology import FabricError, Topology

log = logging.getLogger("routing")

Rows = dict[str, dict[str, str]]
"""`TABLE:key` -> field -> value"""
Told = list[dict[str, Any]]
"""What `ip -j` answers"""

LARGEST_WEIGHT = 255
"""zebra's; it scales bandwidths to it"""
SETTLE_S, LOOK_S = 0.02, 1.0
PRODUCE = """
local added = redis.call('SADD', ARGV[1] .. '_KEY_SET', ARGV[2])
if #ARGV == 2 then
    redis.call('SADD', ARGV[1] .. '_DEL_SET', ARGV[2])
    redis.call('DEL', '_' .. ARGV[1] .. ':' .. ARGV[2])
else
    redis.call('HSET', '_' .. ARGV[1] .. ':' .. ARGV[2], unpack(ARGV, 3))
end
if added == 1 then redis.call('PUBLISH', ARGV[1] .. '_CHANNEL@0', 'G') end
return ''
"""
"""ProducerStateTable's set and del (sonic-swss-common)."""


def rows_of(routes: Told, neighbours: Told, addresses: Told) -> Rows:
    """The rows for what a switch's kernel tells; only of front-panel ports."""
    found: Rows = {}
    for link in addresses:
        if is_front(name := link.get("ifname", "")):
            found[f"INTF_TABLE:{name}"] = {"NULL": "NULL"}
            for one in link.get("addr_info", ()):
                if one.get("family") == "inet":
                    found[f"INTF_TABLE:{name}:{one['local']}/{one['prefixlen']}"] = {
                        "scope": "global",
                        "family": "IPv4",
                    }
    for one in neighbours:
        if is_front(one.get("dev", "")) and one.get("lladdr") and "FAILED" not in one.get("state", ()):
            row = {"neigh": one["lladdr"], "family": "IPv6" if ":" in one["dst"] else "IPv4"}
            found[f"NEIGH_TABLE:{one['dev']}:{one['dst']}"] = row
    for route in routes:
        hops = [one for one in route.get("nexthops", [route]) if is_front(one.get("dev", "")) and is_alive(one)]
        if hops:
            prefix = "0.0.0.0/0" if route["dst"] == "default" else route["dst"]
            row = {
                "protocol": route.get("protocol", "static"),
                "nexthop": ",".join(one.get("gateway", "0.0.0.0") for one in hops),
                "ifname": ",".join(one["dev"] for one in hops),
            }
            if len(hops) > 1:
                row["weight"] = ",".join(str(one.get("weight", 1)) for one in hops)
            found[f"ROUTE_TABLE:{prefix}"] = row
    return found


def is_front(name: str) -> bool:
    """Whether a link is a port of the switch, not of its management."""
    return name.startswith(("Ethernet", "PortChannel"))


def is_alive(hop: Mapping[str, Any]) -> bool:
    """Whether the kernel sends packets by a next hop."""
    return not {"dead", "linkdown"} & set(hop.get("flags", ()))


def bandwidths(snippets: Iterable[str]) -> dict[str, int]:
    """Bandwidth by neighbour's address, of the lines that switchd gives for FRR."""
    found = {}
    for text in snippets:
        told = re.search(r"set extcommunity bandwidth (\d+)", text)
        for address in re.findall(r"neighbor (\S+) route-map \S+ in", text):
            if told:
                found[address] = int(told[1])
    return found


Hops = list[tuple[str, str]]
"""Address and port of each next hop"""


def best_paths(topology: Topology, name: str, up: Set[str], reach: Mapping[str, Set[str]]) -> dict[str, Hops]:
    """What BGP gives a switch: each rack's next hops by its links that are up.

    reach  the racks that each spine has told its leaves of; a leaf has a rack by the spines that told it
    """
    found: dict[str, Hops] = {}
    for port in topology.ports_of(name):
        if not port.peer_is_switch or port.name not in up:
            continue
        racks = reach.get(port.peer_node, set()) - {topology.rack_of(name)} if name in topology.leaf_names else set()
        for rack in racks if name in topology.leaf_names else {topology.rack_of(port.peer_node)}:
            found.setdefault(rack, []).append((peer_address(port), port.name))
    return found


def route_lines(
    topology: Topology, wanted: Mapping[str, Hops], routes: Told, bandwidth: Mapping[str, int]
) -> Iterator[str]:
    """Lines of `ip -batch` that make the kernel's routes between racks these, weighed as zebra does.

    The next hops' bandwidths in proportion, the largest 255; without one for each of them the route is equal-cost.
    """
    racks = {topology.rack_of(leaf) for leaf in topology.leaf_names}
    now = {
        one["dst"]: {(hop.get("gateway"), hop.get("dev")): hop.get("weight", 1) for hop in one.get("nexthops", [one])}
        for one in routes
        if one.get("dst") in racks
    }
    for rack, hops in wanted.items():
        known = [bandwidth.get(address, 0) for address, _ in hops]
        most = max(known)
        weights = [max(1, round(LARGEST_WEIGHT * one / most)) for one in known] if all(known) else [1] * len(hops)
        if len(hops) == 1:
            weights = [1]
        if now.get(rack) != dict(zip(hops, weights, strict=True)):
            told = zip(hops, weights, strict=True)
            ways = " ".join(f"nexthop via {address} dev {port} weight {weight}" for (address, port), weight in told)
            alone = ways.removeprefix("nexthop ").partition(" weight")[0]
            yield f"route replace {rack} {ways if len(hops) > 1 else alone}"
    for rack in now.keys() - wanted.keys():
        yield f"route flush exact {rack}"


class Switch:
    """The routing of one switch."""

    def __init__(self, name: str, netns: str, socket: Path, topology: Topology) -> None:
        self.name, self._netns, self._topology = name, netns, topology
        self._cables = [port for port in topology.ports_of(name) if port.peer_is_switch]
        self._appl, self._state = connect(str(socket), APPL_DB), connect(str(socket), STATE_DB)
        self._produce = self._appl.register_script(PRODUCE)
        self._written: Rows = {}
        argv = ["ip", "-n", netns, "monitor", "route", "neigh", "address", "link"]
        self.is_leaf = name in topology.leaf_names
        self.monitor = subprocess.Popen(argv, stdout=subprocess.PIPE)

    def sync(self, reach: dict[str, set[str]]) -> None:
        """The kernel's routes are what BGP and FRR's lines say, the rows what the kernel has.

        A spine tells its racks to `reach`.
        """
        links = self._told("link", "show")
        up = {one["ifname"] for one in links if "LOWER_UP" in one["flags"]}
        wanted_routes = best_paths(self._topology, self.name, up, reach)
        if self.name in self._topology.spine_names:
            reach[self.name] = set(wanted_routes)
        if not links:
            return
        self._resolve(up)
        routes, bandwidth = self._told("route", "show"), bandwidths(self._snippets())
        if lines := list(route_lines(self._topology, wanted_routes, routes, bandwidth)):
            run_all([Ip(self._netns, line) for line in lines])
            log.info("routed switch=%s routes=%d", self.name, len(lines))
        wanted = rows_of(self._told("route", "show"), self._told("neigh", "show"), self._told("address", "show"))
        order = ("INTF_TABLE", "NEIGH_TABLE", "ROUTE_TABLE")
        for table in order:
            for key, row in wanted.items():
                if key.startswith(f"{table}:") and self._written.get(key) != row:
                    self._produce(args=[table, key.partition(":")[2], *(text for pair in row.items() for text in pair)])
        for table in reversed(order):
            for key in self._written.keys() - wanted.keys():
                if key.startswith(f"{table}:"):
                    self._produce(args=[table, key.partition(":")[2]])
        if wanted != self._written:
            log.info("rows switch=%s count=%d", self.name, len(wanted))
        self._written = wanted

    def _resolve(self, up: Set[str]) -> None:
        """Neighbours that went with their link, as SONiC's arp_update would resolve them; permanent, as in `plan`."""
        known = {(one["dev"], one["dst"]) for one in self._told("neigh", "show") if one.get("lladdr")}
        missing = [one for one in self._cables if one.name in up and (one.name, peer_address(one)) not in known]
        run_all([Ip(self._netns, neighbour_line(one)) for one in missing])

    def is_lost(self) -> bool:
        """Whether APPL_DB was emptied, as a restart of orchagent's container does: everything is then written again."""
        if self._written and self._appl.exists(*self._written) + self._waiting() < len(self._written):
            self._written = {}
            return True
        return False

    def _waiting(self) -> int:
        """How many rows orchagent has not taken yet."""
        return sum(int(self._appl.scard(f"{table}_KEY_SET")) for table in ("INTF_TABLE", "NEIGH_TABLE", "ROUTE_TABLE"))

    def _snippets(self) -> list[str]:
        keys = sorted(map(str, self._state.keys("QCLIMB_PATH_STATE|*")))
        return [str(self._state.hget(key, "frr") or "") for key in keys]

    def snippets_changed(self, known: dict[str, list[str]]) -> bool:
        """Whether switchd gives other lines for FRR than when it was asked last; `known`: by switch, kept here."""
        now = self._snippets()
        changed = known.get(self.name, []) != now
        known[self.name] = now
        return changed

    def _told(self, *words: str) -> Told:
        done = subprocess.run(["ip", "-n", self._netns, "-j", "-4", *words], capture_output=True, check=False)
        found: Told = json.loads(done.stdout or b"[]") if not done.returncode else []
        return found


def follow(switches: Sequence[Switch]) -> None:
    """For ever. Spines first: what they reach decides leaves' routes."""
    known: dict[str, list[str]] = {}
    reach: dict[str, set[str]] = {}
    for switch in switches:
        switch.sync(reach)
    log.info("ready switches=%d", len(switches))
    by_pipe = {switch.monitor.stdout: switch for switch in switches if switch.monitor.stdout}
    while True:
        ready, _, _ = select.select(list(by_pipe), [], [], LOOK_S)
        time.sleep(SETTLE_S if ready else 0)
        due = set()
        for pipe in ready:
            if os.read(pipe.fileno(), 1 << 16):
                due.add(by_pipe[pipe])
            else:
                del by_pipe[pipe]
        before = {name: set(racks) for name, racks in reach.items()}
        for switch in switches:
            is_told = switch.is_leaf and reach != before
            try:
                if is_told or switch in due or switch.snippets_changed(known) or switch.is_lost():
                    switch.sync(reach)
            except (redis.ConnectionError, FabricError) as error:
                log.warning("switch=%s error=%r", switch.name, str(error))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.control.routing", description=__doc__)
    parser.add_argument("--fabric", required=True, metavar="PREFIX", help="a fabric that is up")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    record = state.load(options.fabric)
    if record is None:
        sys.exit(f"routing: no fabric with prefix {options.fabric} is up")
    directory = state.directory_of(options.fabric)
    switches = [
        Switch(
            name,
            netns_of(options.fabric, name),
            directory / "switches" / name / "redis.sock",
            record.topology,
        )
        for name in (*record.topology.spine_names, *record.topology.leaf_names)
    ]
    try:
        follow(switches)
    finally:
        for switch in switches:
            switch.monitor.terminate()


if __name__ == "__main__":
    main()
