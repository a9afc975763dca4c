"""Deliveries by way of a Redis stream: workers take them from hosts, the orchestrator that leads keeps them.

A worker acknowledges a delivery once Redis has it on disk (`appendfsync always`). The leader reads the stream in order
and notes, in the transaction that keeps deliveries, up to which entry: each counts once, whoever is killed when. That
is why it needs no consumer group's acknowledgements, which are apart from the transaction.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import redis
from qclimb.histogram import SizeHistogram
from qclimb.loops import service_thread
from qclimb.record_rows import KEPT
from qclimb.stretch import Stretch

from ..errors import BusyError, StoreError
from ..metrics import Metrics
from ..store.store import Store
from .deliveries import RETRY_AFTER_S, Delivery, Intake, Json
from .quota import RECORDS_PER_S, Quota
from .recordings import Recordings

log = logging.getLogger(__name__)

STREAM = "qclimb:deliveries"
WAITING_MOST = 20_000
"""Entries that wait; then workers refuse. A full one has 0.35 MB, most have a few KB."""
AT_ONCE = 256
BLOCK_MS = 1000
RETRY_S = 1.0
LAST = "ingested"
"""The setting that has the last entry that was kept."""
Fields = Mapping[bytes, bytes]


def opened(url: str) -> redis.Redis:
    """A Redis at `redis://` (this machine), `rediss://` or `unix://`.

    Raises StoreError, also for one that may lose what it took.
    """
    try:
        found: redis.Redis = redis.Redis.from_url(url, socket_timeout=10, socket_connect_timeout=5)
        given = found.get_connection_kwargs()
        host = str(given.get("host", ""))
        if given.get("ssl_cert_reqs", "required") != "required" or not given.get("ssl_check_hostname", True):
            raise StoreError(f"redis at {host}: TLS without its server's certificate checked, expected it to be")
        if url.startswith("redis://") and host not in ("localhost", "127.0.0.1", "::1"):
            raise StoreError(f"redis at {host}: without TLS, expected rediss:// to another machine")
        kept = {name: found.config_get(name).get(name) for name in ("appendonly", "appendfsync")}
    except (redis.RedisError, ValueError) as error:
        raise StoreError(f"redis {url.rpartition('@')[2]}: {error}") from error
    if kept != {"appendonly": "yes", "appendfsync": "always"}:
        told = ", ".join(f"{name} {value}" for name, value in kept.items())
        raise StoreError(f"redis {url.rpartition('@')[2]}: has {told}, expected appendonly yes, appendfsync always")
    return found


def encode(delivery: Delivery) -> dict[str, str | bytes]:
    """An entry."""
    head = {
        "host": delivery.host,
        "label": delivery.label,
        "sizes": delivery.sizes.to_json(),
        "dropped": delivery.dropped,
        "unobserved": delivery.unobserved,
        "generation": delivery.generation,
        "key": delivery.key,
        "asked": delivery.asked,
        "stretch": None if delivery.stretch is None else delivery.stretch.to_json(),
    }
    return {"head": json.dumps(head, separators=(",", ":")), "rows": delivery.rows.tobytes()}


def decode(fields: Fields) -> Delivery:
    """The delivery of an entry. Raises KeyError, TypeError, ValueError, QclimbError."""
    head = json.loads(fields[b"head"])
    sizes, stretch = SizeHistogram.from_json(head.pop("sizes")), head.pop("stretch")
    rows = np.frombuffer(fields[b"rows"], dtype=KEPT)
    return Delivery(**head, rows=rows, sizes=sizes, stretch=None if stretch is None else Stretch.from_json(stretch))


class StreamIntake(Intake):
    """A worker's: takes deliveries, and has Redis keep them. What the leader does with them is not known here."""

    def __init__(self, to: redis.Redis, store: Store, metrics: Metrics, records_per_s: int = RECORDS_PER_S) -> None:
        """`store`: to read from. As many hosts as it has are taken to deliver here, until something else is seen."""
        super().__init__(store, Recordings(store), metrics, lambda host, generation: None, records_per_s)
        self._redis = to
        self._quota = Quota(records_per_s, len(store.hosts()))

    def keep(self, group: Sequence[Delivery]) -> list[Json | Exception]:
        """Appends them to the stream; each one's answer, or error."""
        assert self._quota is not None
        now, answers = time.monotonic(), list[Json | Exception]()
        try:
            waiting = int(self._redis.xlen(STREAM))
            if waiting + len(group) > WAITING_MOST:
                raise BusyError(f"deliveries: {waiting} wait to be kept, deliver again", RETRY_AFTER_S)
            with self._redis.pipeline(transaction=False) as pipe:
                for delivery in group:
                    pipe.xadd(STREAM, encode(delivery))  # type: ignore[arg-type]
                pipe.execute()
        except BusyError as error:
            return [error] * len(group)
        except redis.RedisError as error:
            log.error("deliveries count=%d event=failed reason=%r", len(group), str(error))
            return [StoreError(f"redis: {error}")] * len(group)
        for delivery in group:
            self._quota.came([(len(delivery.rows), delivery.dropped)], now)
            wanted = self._quota.next_of(len(delivery.rows), delivery.dropped)
            self._told(delivery.host, wanted)
            self._metrics.flows(delivery.host, len(delivery.rows), delivery.dropped, delivery.unobserved)
            answers.append({"label": delivery.label, "records": len(delivery.rows), "next_records": wanted})
        return answers


class Consumer:
    """The leader's: keeps what workers appended, in order, in a thread of its own."""

    def __init__(self, source: redis.Redis, store: Store, intake: Intake) -> None:
        self._redis, self._store, self._intake = source, store, intake
        self._ends = threading.Event()
        self._thread = service_thread("ingest", self._run)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def close(self) -> None:
        """Ends after what is under way."""
        self._ends.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        said = ""
        while not self._ends.is_set():
            try:
                self.read(BLOCK_MS)
                said = ""
            except (StoreError, redis.RedisError) as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("ingest event=waits reason=%r", said)
                self._ends.wait(RETRY_S)
            except Exception:
                log.exception("ingest event=failed")
                self._ends.wait(RETRY_S)

    def read(self, block_ms: int | None = None) -> int:
        """Keeps what is there, AT_ONCE at most, and returns how many; waits for some. Raises StoreError, RedisError."""
        last = self._store.setting(LAST) or "0-0"
        found: Any = self._redis.xread({STREAM: last}, count=AT_ONCE, block=block_ms)
        entries: list[tuple[bytes, Fields]] = found[0][1] if found else []
        if not entries:
            return 0
        newest = entries[-1][0].decode()
        try:
            self._keep(entries)
        except (StoreError, redis.RedisError):
            raise
        except Exception:
            for entry in entries:  # one of them is what no worker writes
                self._keep_alone(entry)
        self._redis.xtrim(STREAM, minid=_after(newest), approximate=False)
        return len(entries)

    def _keep(self, entries: Sequence[tuple[bytes, Fields]]) -> None:
        """All of them, and up to where that is, or nothing."""
        newest = entries[-1][0].decode()
        group = [decode(fields) for _, fields in entries]
        for answer in self._intake.keep_with(group, lambda: self._store.set_setting(LAST, newest, cached=False)):
            if isinstance(answer, Exception):
                log.warning("ingest event=left-out reason=%r", str(answer))

    def _keep_alone(self, entry: tuple[bytes, Fields]) -> None:
        try:
            self._keep([entry])
        except StoreError:
            raise
        except Exception as error:
            name = entry[0].decode()
            log.error("ingest entry=%s event=left-out reason=%r", name, repr(error))
            self._store.set_setting(LAST, name, cached=False)


def _after(entry: str) -> str:
    milliseconds, _, number = entry.partition("-")
    return f"{milliseconds}-{int(number) + 1}"
