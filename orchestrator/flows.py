"""Finished flows: taken in by batches, kept by label up to a limit, counted in full.

A recording is what arrived under one label. Its histogram counts every flow; its records are the sample that a forest
is trained on, the latest `max_records` of a label (older batches age out, and are counted as such).
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb import record_rows
from qclimb.histogram import GAMMA, LAST_BUCKET, SizeHistogram
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from sqlalchemy import Connection, bindparam, delete, func, insert, select
from sqlalchemy.dialects.sqlite import insert as upsert

from . import schema
from .defaults import MAX_RECORDS
from .errors import MissingError
from .store import Store

ROW = np.dtype(
    [
        ("start_ns", "<u8"),
        ("size_bytes", "<u8"),
        ("lower_bytes", "<u8"),
        ("upper_bytes", "<u8"),
        ("flags", "<u4"),
        ("features", "<f4", (12,)),
    ]
)
"""A record as it is kept; `features` in the order of qclimb.features.FEATURES."""

Rows = npt.NDArray[np.void]

DEFAULT_LABEL = "default"
"""Flows that arrive while nothing is being recorded under a name."""

COUNTED_MAX = 2**63 - 1
"""SQLite's largest integer, at which a count stays."""

BUCKET_TEXTS = tuple(map(str, range(LAST_BUCKET + 1)))

LABELS_IN_MEMORY = 8
"""Of which what is added to is in memory: some 25 MB each with 500 busy hosts, and each recording has a new one."""

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)


def pack_rows(rows: record_rows.Rows) -> Rows:
    """Records as they come from hosts, as ROWs."""
    packed = np.zeros(len(rows), dtype=ROW)
    for name in ("start_ns", "size_bytes", "lower_bytes", "upper_bytes", "flags"):
        packed[name] = rows[name]
    packed["features"] = record_rows.features(rows)
    return packed


def pack(records: Iterable[FlowRecord]) -> Rows:
    """The same of records one by one."""
    return pack_rows(record_rows.from_records(records))


@dataclass(frozen=True)
class Arrived:
    """Flows of a host; `sizes` are those of all of them, `dropped` counts those of which there is no row."""

    label: str
    host: str
    rows: Rows
    sizes: SizeHistogram
    dropped: int


@dataclass
class _Of:
    """What is known of all flows of a label at a host, as its row has it; buckets are decimal texts, as in JSON."""

    counts: dict[str, int]
    total_bytes: int
    received: int
    dropped_at_host: int
    aged_out: int

    def add(self, arrived: Arrived) -> None:
        counts, so_far = self.counts, self.counts.get
        for bucket, count in arrived.sizes.counts.items():  # some hundred of a busy host
            name = BUCKET_TEXTS[bucket]
            counts[name] = so_far(name, 0) + count
        self.total_bytes += arrived.sizes.total_bytes
        self.received += len(arrived.rows)
        self.dropped_at_host = min(self.dropped_at_host + arrived.dropped, COUNTED_MAX)

    def row(self, label: str, host: str) -> dict[str, Any]:
        histogram = {"gamma": GAMMA, "counts": self.counts, "total_bytes": self.total_bytes}
        counted = {"received": self.received, "dropped_at_host": self.dropped_at_host, "aged_out": self.aged_out}
        return {"label": label, "host": host, "histogram": histogram, **counted}


@dataclass
class _Kept:
    """The batches of a label that are kept, the oldest first: (id, host, flows)."""

    flows: int
    batches: deque[tuple[int, str, int]]


class Recordings:
    """The flows in a store.

    Of what is added to, a copy is in memory, so that a delivery only writes: nobody else writes these tables. It is
    of the labels that were added to last.
    """

    def __init__(self, store: Store, max_records: int = MAX_RECORDS) -> None:
        self.store = store
        self.max_records = max_records
        self.forget()

    def forget(self) -> None:
        """Reads anew what is in memory when it is needed next: after a transaction that failed."""
        self._of_host: dict[tuple[str, str], _Of] = {}
        self._of_label: dict[str, _Kept] = {}
        self._added_to: dict[str, None] = {}  # the labels of both, the last one last
        self._last_id: int | None = None

    def add(
        self, label: str, host: str, records: Sequence[FlowRecord], histogram: SizeHistogram | None, dropped: int
    ) -> None:
        """Takes in what a host saw since its last batch. Without a histogram the records stand for all flows."""
        sizes = SizeHistogram.of(record.size_bytes for record in records) if histogram is None else histogram
        try:
            with self.store.writing(known=False) as connection:
                self.add_all(connection, [Arrived(label, host, pack(records), sizes, dropped)])
        except Exception:
            self.forget()
            raise

    def add_all(self, connection: Connection, arrived: Iterable[Arrived]) -> None:
        """Takes in what hosts saw, in a transaction of the caller's, who calls `forget` where that fails."""
        changed: dict[tuple[str, str], _Of] = {}
        batches: list[dict[str, Any]] = []
        labels: set[str] = set()
        now = time.time()
        for each in arrived:
            if not (len(each.rows) or each.sizes.flows or each.dropped):
                continue
            of = changed[each.label, each.host] = self._of_a_host(connection, each.label, each.host)
            of.add(each)
            if len(each.rows):
                kept = self._of_a_label(connection, each.label)
                number = self._next_id(connection)
                kept.batches.append((number, each.host, len(each.rows)))
                kept.flows += len(each.rows)
                labels.add(each.label)
                values = {"id": number, "label": each.label, "host": each.host, "received_at": now}
                batches.append({**values, "flows": len(each.rows), "rows": each.rows.tobytes()})
        if batches:
            connection.execute(insert(schema.batches), batches)
        for label in labels:
            for host in self._age_out(connection, label):
                changed[label, host] = self._of_a_host(connection, label, host)
        if changed:
            row = upsert(schema.recordings)
            told = {name: row.excluded[name] for name in ("histogram", "received", "dropped_at_host", "aged_out")}
            connection.execute(
                row.on_conflict_do_update(index_elements=["label", "host"], set_=told),
                [of.row(label, host) for (label, host), of in changed.items()],
            )
        self._keep_in_memory({label for label, _ in changed})

    def _keep_in_memory(self, labels: Iterable[str]) -> None:
        """These, and of the others those that were added to last."""
        for label in labels:
            self._added_to.pop(label, None)
            self._added_to[label] = None
        for gone in list(self._added_to)[:-LABELS_IN_MEMORY]:
            del self._added_to[gone]
            self._of_label.pop(gone, None)
            self._of_host = {place: of for place, of in self._of_host.items() if place[0] != gone}

    def _age_out(self, connection: Connection, label: str) -> set[str]:
        """Forgets a label's oldest batches beyond the limit, and counts them; returns whose they were."""
        kept = self._of_label[label]
        gone: list[dict[str, int]] = []
        hosts: set[str] = set()
        while kept.flows > self.max_records:
            number, host, flows = kept.batches.popleft()
            kept.flows -= flows
            gone.append({"gone": number})
            self._of_a_host(connection, label, host).aged_out += flows
            hosts.add(host)
        if gone:
            connection.execute(delete(schema.batches).where(schema.batches.c.id == bindparam("gone")), gone)
        return hosts

    def _of_a_host(self, connection: Connection, label: str, host: str) -> _Of:
        found = self._of_host.get((label, host))
        if found is None:
            table = schema.recordings
            row = connection.execute(select(table).where((table.c.label == label) & (table.c.host == host))).first()
            if row is None:
                found = _Of({}, 0, 0, 0, 0)
            else:
                counted = row.received, row.dropped_at_host, row.aged_out
                found = _Of(dict(row.histogram["counts"]), row.histogram["total_bytes"], *counted)
            self._of_host[label, host] = found
        return found

    def _of_a_label(self, connection: Connection, label: str) -> _Kept:
        found = self._of_label.get(label)
        if found is None:
            columns = schema.batches.c
            query = select(columns.id, columns.host, columns.flows).where(columns.label == label).order_by(columns.id)
            batches = deque((row.id, row.host, row.flows) for row in connection.execute(query))
            found = self._of_label[label] = _Kept(sum(flows for _, _, flows in batches), batches)
        return found

    def _next_id(self, connection: Connection) -> int:
        if self._last_id is None:
            self._last_id = int(connection.scalar(select(func.max(schema.batches.c.id))) or 0)
        self._last_id += 1
        return self._last_id

    def labels(self) -> list[str]:
        """All labels under which flows are known."""
        with self.store.reading() as connection:
            query = select(schema.recordings.c.label).distinct().order_by(schema.recordings.c.label)
            return [str(label) for label in connection.scalars(query)]

    def histogram(self, label: str | None) -> SizeHistogram:
        """Sizes of all flows of a label, None: of every label; MissingError when there is no such label."""
        return sum((SizeHistogram.from_json(row.histogram) for row in self._of(label)), SizeHistogram())

    def _of(self, label: str | None) -> Sequence[Any]:
        query = select(schema.recordings)
        if label is not None:
            query = query.where(schema.recordings.c.label == label)
        with self.store.reading() as connection:
            found = connection.execute(query).all()
        if label is not None and not found:
            known = ", ".join(map(repr, self.labels())) or "none yet"
            raise MissingError(f"label: nothing was recorded under {label!r}, there is: {known}")
        return found

    def rows(self, label: str | None) -> tuple[Rows, list[str]]:
        """The kept records of a label, in the order of arrival, and the host of each."""
        query = select(schema.batches.c.host, schema.batches.c.flows, schema.batches.c.rows)
        if label is not None:
            self._of(label)
            query = query.where(schema.batches.c.label == label)
        with self.store.reading() as connection:
            found = connection.execute(query.order_by(schema.batches.c.id)).all()
        packed = np.frombuffer(b"".join(row.rows for row in found), dtype=ROW)
        return packed, [row.host for row in found for _ in range(row.flows)]

    def newest(self, flows: int, after: int = 0) -> tuple[Rows, list[str]]:
        """At least the newest so many kept records of any label, whole batches, in the order of arrival; their hosts.

        `after`: of those that came after the batch of that number alone.
        """
        columns = schema.batches.c
        query = select(columns.host, columns.flows, columns.rows).where(columns.id > after)
        found: list[Any] = []
        with self.store.reading() as connection:
            for row in connection.execute(query.order_by(columns.id.desc())):
                found.insert(0, row)
                flows -= row.flows
                if flows <= 0:
                    break
        packed = np.frombuffer(b"".join(row.rows for row in found), dtype=ROW)
        return packed, [row.host for row in found for _ in range(row.flows)]

    def last_batch(self) -> int:
        """The number of the batch that came last; 0 before any."""
        with self.store.reading() as connection:
            return int(connection.scalar(select(func.max(schema.batches.c.id))) or 0)

    def received_after(self, batch: int) -> int:
        """How many kept records came after a batch."""
        with self.store.reading() as connection:
            query = select(func.sum(schema.batches.c.flows)).where(schema.batches.c.id > batch)
            return int(connection.scalar(query) or 0)

    def statistics(self, label: str | None) -> dict[str, Any]:
        """Sizes (bytes), losses on the way here, and how well the bounds in force held, of one label or of all."""
        found = self._of(label)
        sizes = sum((SizeHistogram.from_json(row.histogram) for row in found), SizeHistogram())
        rows, _ = self.rows(label)
        bounded = rows[(rows["flags"] & HAD_FOREST_BOUNDS) != 0]
        held = (bounded["lower_bytes"] <= bounded["size_bytes"]) & (bounded["size_bytes"] <= bounded["upper_bytes"])
        return {
            "label": label,
            "labels": self.labels(),
            "flows": sizes.flows,
            "total_bytes": sizes.total_bytes,
            "mean_bytes": sizes.total_bytes / sizes.flows if sizes.flows else None,
            "quantile_bytes": {str(share): sizes.quantile(share) for share in QUANTILES} if sizes.flows else {},
            "histogram": sizes.to_json(),
            "records": {
                "received": sum(row.received for row in found),
                "kept": len(rows),
                "aged_out": sum(row.aged_out for row in found),
                "dropped_at_host": sum(row.dropped_at_host for row in found),
            },
            "forecasts": {"flows": len(bounded), "coverage": float(held.mean()) if len(bounded) else None},
            "hosts": {
                host: sum(SizeHistogram.from_json(row.histogram).flows for row in found if row.host == host)
                for host in sorted({row.host for row in found})
            },
        }
