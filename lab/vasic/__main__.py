"""`python -m lab.vasic --redis SOCKET [--bpf DIR]`: follows the rows of one switch until it is told to stop."""

from __future__ import annotations

import argparse
import logging
import signal
import time
from pathlib import Path
from types import FrameType

import redis

from lab.fabric.topology import FabricError
from lab.vasic.asic import Asic
from lab.vasic.counters import Counters, Fields
from lab.vasic.rows import CONFIG_DB, COUNTERS_DB, STATE_DB, TABLES, connect, fingerprint, read
from lab.vasic.translate import translate

log = logging.getLogger("vasic")
COUNTERS_EVERY_S = 1.0
SETTLE_S = 0.02
"""After a change, others of the same batch are awaited this long, so that a port is programmed once."""


class Vasic:
    """One switch's loop: rows changed -> read all, translate, apply what differs, say so in STATE_DB."""

    def __init__(self, socket_path: str, asic: Asic) -> None:
        self._config, self._state = connect(socket_path, CONFIG_DB), connect(socket_path, STATE_DB)
        self._counters_db = connect(socket_path, COUNTERS_DB)
        self._asic = asic
        self._counters: Counters | None = None
        self._ports: list[str] = []
        self._sequence = 0
        self._rows_hash = ""

    def run(self) -> None:
        """For ever."""
        events = self._config.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        events.psubscribe(*[f"__keyspace@{CONFIG_DB}__:{table}|*" for table in TABLES])
        self.follow()
        log.info("ready ports=%d", len(self._ports))
        next_counters = time.monotonic()
        while True:
            wait = max(0.0, next_counters - time.monotonic())
            if events.get_message(timeout=wait):
                time.sleep(SETTLE_S)
                while events.get_message(timeout=0):
                    pass
                self.follow()
            if time.monotonic() >= next_counters:
                self.count()
                next_counters = time.monotonic() + COUNTERS_EVERY_S

    def follow(self) -> None:
        """Makes the ports what the rows say now."""
        rows = read(self._config)
        now = fingerprint(rows)
        if now == self._rows_hash:
            return
        translation = translate(rows)
        problems = list(translation.problems)
        for problem in problems:
            log.warning("%s", problem)
        try:
            changed = self._asic.apply(translation.ports)
        except FabricError as refused:
            log.error("rows=%s %s", now, refused)
            self._state.hset("VASIC|global", mapping={"last_error": str(refused)})
            return
        self._rows_hash, self._sequence = now, self._sequence + 1
        if list(translation.ports) != self._ports:
            self._ports = sorted(translation.ports, key=lambda port: (len(port), port))
            self._counters = Counters(self._counters_db, self._ports)
        log.info("applied sequence=%d rows=%s ports=%s", self._sequence, now, ",".join(changed) or "none")
        row: Fields = {
            "sequence": str(self._sequence),
            "rows_hash": now,
            "applied_at": f"{time.time():.3f}",
            "problems": "; ".join(problems),
            "last_error": "",
        }
        self._state.hset("VASIC|global", mapping=row)

    def count(self) -> None:
        """Counters into COUNTERS_DB."""
        if self._counters is not None:
            self._counters.write(self._asic.states(self._ports))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.vasic", description=__doc__)
    parser.add_argument("--redis", required=True, metavar="SOCKET", help="redis unix socket of this switch")
    parser.add_argument("--bpf", type=Path, metavar="DIR", help="where the fabric pinned the shared buffer's tables")
    parser.add_argument("--shaper", choices=("htb", "ets"), default="htb")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    vasic = Vasic(options.redis, Asic(options.shaper, options.bpf))

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit  # at once, also out of redis-py's patience with a redis that went first

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        vasic.run()
    except redis.ConnectionError as gone:
        raise SystemExit(f"vasic: redis at {options.redis}: {gone}") from None
    except FabricError as wrong:
        raise SystemExit(f"vasic: {wrong}") from None


if __name__ == "__main__":
    main()
