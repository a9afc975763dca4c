"""Finished flows: taken in by batches, kept by label up to a limit, counted in full.

A recording is what arrived under one label. Its histogram counts every flow; its records are the sample that a forest
is trained on, the latest `max_records` of a label (older batches age out, and are counted as such).
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from qclimb.histogram import SizeHistogram
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert as upsert

from . import schema
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

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)


def feature_rows(records: Iterable[FlowRecord]) -> npt.NDArray[np.float32]:
    """float32 [records, 12]: what the shim computes when the flow starts, rounded once (to nearest even)."""
    return np.array([record.features() for record in records], dtype=np.uint64).reshape(-1, 12).astype(np.float32)


def pack(records: Sequence[FlowRecord]) -> Rows:
    """The records as ROWs."""
    rows = np.zeros(len(records), dtype=ROW)
    for name in ("start_ns", "size_bytes", "lower_bytes", "upper_bytes", "flags"):
        rows[name] = np.array([getattr(record, name) for record in records], dtype=ROW[name])
    rows["features"] = feature_rows(records)
    return rows


class Recordings:
    """The flows in a store."""

    def __init__(self, store: Store, max_records: int = 200_000) -> None:
        self.store = store
        self.max_records = max_records

    def add(
        self, label: str, host: str, records: Sequence[FlowRecord], histogram: SizeHistogram | None, dropped: int
    ) -> None:
        """Takes in what a host saw since its last batch. Without a histogram the records stand for all flows."""
        if histogram is None:
            histogram = SizeHistogram.of(record.size_bytes for record in records)
        if not (records or histogram.flows or dropped):
            return
        rows = pack(records)
        with self.store.writing() as connection:
            aged_out: dict[str, int] = {}
            if len(rows):
                values = {"label": label, "host": host, "received_at": time.time(), "flows": len(rows)}
                connection.execute(schema.batches.insert().values(rows=rows.tobytes(), **values))
                aged_out = self._age_out(connection, label)
            aged_out.setdefault(host, 0)
            for name, aged in aged_out.items():
                fresh = name == host
                _count(
                    connection,
                    label,
                    name,
                    histogram if fresh else SizeHistogram(),
                    len(rows) if fresh else 0,
                    dropped if fresh else 0,
                    aged,
                )

    def _age_out(self, connection: Connection, label: str) -> dict[str, int]:
        """Forgets a label's oldest batches beyond the limit; returns the records lost by host."""
        batches = schema.batches.c
        kept = int(connection.scalar(select(func.sum(batches.flows)).where(batches.label == label)) or 0)
        lost: dict[str, int] = {}
        if kept <= self.max_records:
            return lost
        oldest = select(batches.id, batches.host, batches.flows).where(batches.label == label).order_by(batches.id)
        for row in connection.execute(oldest).all():
            if kept <= self.max_records:
                break
            connection.execute(delete(schema.batches).where(batches.id == row.id))
            lost[row.host] = lost.get(row.host, 0) + row.flows
            kept -= row.flows
        return lost

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

    def newest(self, flows: int, since: float = 0.0) -> tuple[Rows, list[str]]:
        """At least the newest so many kept records of any label, whole batches, in the order of arrival; their hosts.

        `since`: of those that arrived after that time (s since 1970) alone.
        """
        columns = schema.batches.c
        query = select(columns.host, columns.flows, columns.rows).where(columns.received_at > since)
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


def _count(
    connection: Connection, label: str, host: str, sizes: SizeHistogram, received: int, dropped: int, aged_out: int
) -> None:
    """Adds to what is known of a label at a host."""
    table = schema.recordings
    of_it = (table.c.label == label) & (table.c.host == host)
    before = connection.execute(select(table).where(of_it)).first()
    if before is not None:
        sizes += SizeHistogram.from_json(before.histogram)
        received += before.received
        dropped += before.dropped_at_host
        aged_out += before.aged_out
    values = {"histogram": sizes.to_json(), "received": received, "dropped_at_host": dropped, "aged_out": aged_out}
    row = upsert(table).values(label=label, host=host, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["label", "host"], set_=values))
