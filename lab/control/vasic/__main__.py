"""`python -m lab.control.vasic --redis SOCKET [--bpf DIR]`: follows the rows of one switch until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import signal
import time
from pathlib import Path
from types import FrameType

import redis

from lab.control.vasic.asic import Asic
from lab.control.vasic.counters import Counters
from lab.control.vasic.follow import Follower
from lab.control.vasic.forwarding import forwarding
from lab.control.vasic.program import programs
from lab.control.vasic.router import Router
from lab.control.vasic.rows import COUNTERS_DB, STATE_DB, Fields, connect, fingerprint
from lab.fabric.topology import FabricError

log = logging.getLogger("vasic")
COUNTERS_EVERY_S, LINKS_EVERY_S = 1.0, 0.1
SETTLE_S = 0.02
"""After a change, others of the same batch are awaited this long, so that a port is programmed once."""


class Vasic:
    """One switch's loop: rows changed -> the machine takes them, the queues follow its objects, STATE_DB says so."""

    def __init__(self, socket_path: str, asic: Asic | None) -> None:
        self._state = connect(socket_path, STATE_DB)
        self._follower = Follower(socket_path)
        self._counters = Counters(connect(socket_path, COUNTERS_DB))
        self._asic, self._router = asic, Router() if asic else None
        self._sequence = 0
        self._problems: list[str] = []

    def run(self) -> None:
        """For ever."""
        self._follower.start()
        self._take_links()
        self.program()
        log.info("ready ports=%d", len(self._follower.machine.ports.links))
        next_counters = next_links = time.monotonic()
        while True:
            if self._follower.wait(max(0.0, min(next_counters, next_links) - time.monotonic())):
                time.sleep(SETTLE_S)
                self._follower.take()
                self.program()
            if time.monotonic() >= next_links:
                if self._take_links():
                    self.program()
                next_links = time.monotonic() + LINKS_EVERY_S
            if time.monotonic() >= next_counters:
                self.count()
                next_counters = time.monotonic() + COUNTERS_EVERY_S

    def program(self) -> None:
        """Makes the queues what the machine's objects say, then tells the objects as syncd does."""
        found = programs(self._follower.machine, self._follower.rows["PORT"])
        sent = forwarding(self._follower.machine)
        problems = self._follower.problems() + found.problems + sent.problems
        for problem in problems:
            if problem not in self._problems:
                log.warning("%s", problem)
        self._problems = problems
        changed, error = [], ""
        try:
            if self._asic is not None and self._router is not None:
                up = frozenset(name for name, is_up in self._follower.links_up.items() if is_up)
                there = {name: one for name, one in found.ports.items() if self._asic.is_there(name)}
                changed = self._asic.apply(there)
                self._router.apply(sent, up)
        except FabricError as refused:
            error = str(refused)
            log.error("%s", refused)
        self._follower.tell()
        now, self._sequence = fingerprint(self._follower.rows), self._sequence + 1
        log.info("applied sequence=%d rows=%s ports=%s", self._sequence, now, ",".join(changed) or "none")
        row: Fields = {
            "sequence": str(self._sequence),
            "rows_hash": now,
            "applied_at": f"{time.time():.3f}",
            "routes": "0" if error else str(sum(bool(members) for members in sent.routes.values())),
            "problems": "; ".join(problems),
            "pending": "; ".join(self._follower.machine.pending()),
            "last_error": error,
        }
        self._state.hset("VASIC|global", mapping=row)

    def count(self) -> None:
        """Counters of queues and ACL rules into COUNTERS_DB."""
        if self._asic is not None and self._router is not None:
            ports = {name: port for name, port in self._follower.ports.items() if self._asic.is_there(name)}
            self._counters.write(ports, self._asic.states(list(ports)))
            self._counters.write_rules(self._router.counters())

    def _take_links(self) -> bool:
        """Whether one changed; without queues all are up."""
        return self._follower.links(
            {name: self._asic.is_up(name) if self._asic else True for name in self._follower.ports}
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.control.vasic", description=__doc__)
    parser.add_argument("--redis", required=True, metavar="SOCKET", help="redis unix socket of this switch")
    parser.add_argument("--bpf", type=Path, metavar="DIR", help="where the fabric pinned the shared buffer's tables")
    parser.add_argument("--shaper", choices=("htb", "ets"), default="htb")
    parser.add_argument("--no-queues", action="store_true", help="orchagent and its objects alone, without a port")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit  # at once, also out of redis-py's patience with a redis that went first

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        Vasic(options.redis, None if options.no_queues else Asic(options.shaper, options.bpf)).run()
    except redis.ConnectionError as gone:
        raise SystemExit(f"vasic: redis at {options.redis}: {gone}") from None
    except FabricError as wrong:
        raise SystemExit(f"vasic: {wrong}") from None


if __name__ == "__main__":
    main()
