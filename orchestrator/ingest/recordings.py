"""Finished flows: taken in by batches, kept by label up to a limit, counted in full.

A recording is what arrived under one label. Its histogram counts every flow; its records are the sample that a forest
is trained on, the latest `max_records` of a label (older batches age out, and are counted as such).
"""

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from qclimb import record_rows
from qclimb.checks import UINT64_MAX
from qclimb.histogram import GAMMA, LAST_BUCKET, SizeHistogram
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from qclimb.record_rows import KEPT, Rows
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from ..defaults import MAX_RECORDS
from ..errors import ConflictError, MissingError
from ..store import tables
from ..store.store import Store
from ..store.upsert import upsert
from .credible import weights

DEFAULT_LABEL = "default"
"""Flows that arrive while nothing is being recorded under a name."""

COUNTED_MAX = 2**63 - 1
"""SQLite's largest integer, at which a count stays."""

BUCKET_TEXTS = tuple(map(str, range(LAST_BUCKET + 1)))

LABELS_IN_MEMORY = 8
"""Of which what is added to is in memory: some 25 MB each with 500 busy hosts, and each recording has a new one."""

NO_WEIGHTS: Mapping[str, float] = {}
LABELS_MOST = 100
"""Each has up to `max_records` (17 MB of them by default) in the database."""
ROWS_AT_ONCE = 16
"""Of what is read row by row; a batch has up to 0.35 MB."""

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0)


def kept_of(records: Iterable[FlowRecord]) -> Rows:
    """What is kept of records."""
    return record_rows.kept(record_rows.from_records(records))


@dataclass(frozen=True)
class Arrived:
    """Flows of a host; `sizes` are those of all of them, `dropped` counts those of which there is no row."""

    label: str
    host: str
    rows: Rows
    sizes: SizeHistogram
    dropped: int


@dataclass(frozen=True)
class KeptRecords:
    """What became of flow records."""

    received: int
    kept: int
    aged_out: int
    dropped_at_host: int


@dataclass(frozen=True)
class Forecasts:
    """How the bounds in force held."""

    flows: int
    coverage: float | None


@dataclass(frozen=True)
class Statistics:
    """Sizes of flows under one label, or under all (null)."""

    label: str | None
    labels: list[str]
    flows: int
    total_bytes: int
    mean_bytes: float | None
    quantile_bytes: dict[str, float]
    histogram: dict[str, Any]
    records: KeptRecords
    forecasts: Forecasts
    hosts: dict[str, int]


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
            with self.store.writing(cached=False) as connection:
                self.add_all(connection, [Arrived(label, host, kept_of(records), sizes, dropped)])
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
            connection.execute(insert(tables.batches), batches)
        for label in labels:
            for host in self._age_out(connection, label):
                changed[label, host] = self._of_a_host(connection, label, host)
        if changed:
            row = upsert(connection, tables.recordings)
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
            connection.execute(delete(tables.batches).where(tables.batches.c.id == bindparam("gone")), gone)
        return hosts

    def _of_a_host(self, connection: Connection, label: str, host: str) -> _Of:
        found = self._of_host.get((label, host))
        if found is None:
            table = tables.recordings
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
            columns = tables.batches.c
            query = select(columns.id, columns.host, columns.flows).where(columns.label == label).order_by(columns.id)
            batches = deque((row.id, row.host, row.flows) for row in connection.execute(query))
            found = self._of_label[label] = _Kept(sum(flows for _, _, flows in batches), batches)
        return found

    def _next_id(self, connection: Connection) -> int:
        if self._last_id is None:
            self._last_id = int(connection.scalar(select(func.max(tables.batches.c.id))) or 0)
        self._last_id += 1
        return self._last_id

    def labels(self) -> list[str]:
        """All labels under which flows are known."""
        with self.store.reading() as connection:
            query = select(tables.recordings.c.label).distinct().order_by(tables.recordings.c.label)
            return [str(label) for label in connection.scalars(query)]

    def check_new(self, label: str) -> None:
        """That there is room for a label; ConflictError."""
        found = self.labels()
        if label not in found and len(found) >= LABELS_MOST:
            reason = f"there are {len(found)} labels, expected fewer than {LABELS_MOST} before a new one"
            raise ConflictError(f"label: {reason}; DELETE /v1/flows?label= forgets one")

    def remove(self, label: str) -> None:
        """Forgets all flows of a label; MissingError where there are none."""
        with self.store.writing(cached=False) as connection:
            gone = connection.execute(delete(tables.recordings).where(tables.recordings.c.label == label)).rowcount
            if not gone:
                self._say_missing(label)
            connection.execute(delete(tables.batches).where(tables.batches.c.label == label))
            self.forget()

    def histogram(self, label: str | None) -> SizeHistogram:
        """Sizes of all flows of a label, None: of every label; MissingError when there is no such label."""
        return self._totals(label).sizes()

    def weighed(self, label: str | None) -> tuple[SizeHistogram, dict[str, float]]:
        """The same as thresholds are computed from: of hosts that told of far more flows than others, each weighs less.

        And what theirs weigh.
        """
        found = self._totals(label)
        light = weights(found.flows_of)
        return (self._totals(label, light) if light else found).sizes(), light

    def _totals(self, label: str | None, weight: Mapping[str, float] = NO_WEIGHTS) -> "_Totals":
        """Row by row: of 100 labels with 500 hosts each that is some 100 MB."""
        query = select(tables.recordings)
        if label is not None:
            query = query.where(tables.recordings.c.label == label)
        found = _Totals()
        with self.store.reading() as connection:
            for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query):
                found.add(row, weight.get(row.host, 1.0))
        if label is not None and not found.flows_of:
            self._say_missing(label)
        return found

    def _say_missing(self, label: str) -> NoReturn:
        known = ", ".join(map(repr, self.labels())) or "none yet"
        raise MissingError(f"label: nothing was recorded under {label!r}, there is: {known}")

    def rows(self, label: str) -> tuple[Rows, list[str]]:
        """The kept records of a label, in the order of arrival, and the host of each."""
        if label not in self.labels():
            self._say_missing(label)
        columns = tables.batches.c
        query = select(columns.host, columns.flows, columns.rows).where(columns.label == label)
        with self.store.reading() as connection:
            found = connection.execute(query.order_by(columns.id)).all()
        packed = np.frombuffer(b"".join(row.rows for row in found), dtype=KEPT)
        return packed, [row.host for row in found for _ in range(row.flows)]

    def newest(self, flows: int, after: int = 0, label: str | None = None) -> tuple[Rows, list[str]]:
        """At least the newest so many kept records, whole batches, in the order of arrival; their hosts.

        `after`: of those that came after the batch of that number alone. `label`: of that one; None: of any.
        """
        if label is not None and label not in self.labels():
            self._say_missing(label)
        columns = tables.batches.c
        query = select(columns.host, columns.flows, columns.rows).where(columns.id > after)
        if label is not None:
            query = query.where(columns.label == label)
        found: list[Any] = []
        with self.store.reading() as connection:
            streamed = connection.execution_options(yield_per=ROWS_AT_ONCE)
            for row in streamed.execute(query.order_by(columns.id.desc())):
                found.insert(0, row)
                flows -= row.flows
                if flows <= 0:
                    break
        packed = np.frombuffer(b"".join(row.rows for row in found), dtype=KEPT)
        return packed, [row.host for row in found for _ in range(row.flows)]

    def last_batch(self) -> int:
        """The number of the batch that came last; 0 before any."""
        with self.store.reading() as connection:
            return int(connection.scalar(select(func.max(tables.batches.c.id))) or 0)

    def received_after(self, batch: int) -> int:
        """How many kept records came after a batch."""
        with self.store.reading() as connection:
            query = select(func.sum(tables.batches.c.flows)).where(tables.batches.c.id > batch)
            return int(connection.scalar(query) or 0)

    def statistics(self, label: str | None) -> Statistics:
        """Of one label, or of all; in the memory of a few batches."""
        found = self._totals(label)
        sizes = found.sizes()
        kept, bounded, held = self._held(label)
        return Statistics(
            label=label,
            labels=self.labels(),
            flows=sizes.flows,
            total_bytes=sizes.total_bytes,
            mean_bytes=sizes.total_bytes / sizes.flows if sizes.flows else None,
            quantile_bytes={str(share): sizes.quantile(share) for share in QUANTILES} if sizes.flows else {},
            histogram=sizes.to_json(),
            records=KeptRecords(found.received, kept, found.aged_out, found.dropped_at_host),
            forecasts=Forecasts(bounded, held / bounded if bounded else None),
            hosts=dict(sorted(found.flows_of.items())),
        )

    def _held(self, label: str | None) -> tuple[int, int, int]:
        """How many records are kept, how many of these had bounds of a forest, and how many lay within."""
        query = select(tables.batches.c.rows)
        if label is not None:
            query = query.where(tables.batches.c.label == label)
        kept = bounded = held = 0
        with self.store.reading() as connection:
            for (content,) in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(query):
                rows = np.frombuffer(content, dtype=KEPT)
                asked = rows[(rows["flags"] & HAD_FOREST_BOUNDS) != 0]
                within = (asked["lower_bytes"] <= asked["size_bytes"]) & (asked["size_bytes"] <= asked["upper_bytes"])
                kept, bounded, held = kept + len(rows), bounded + len(asked), held + int(within.sum())
        return kept, bounded, held


class _Totals:
    """Sums over rows of recordings. What no histogram holds any more stays at the most that one does."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._total_bytes = 0
        self.received = self.aged_out = self.dropped_at_host = 0
        self.flows_of: Counter[str] = Counter()

    def add(self, row: Any, weight: float) -> None:
        """A row of tables.recordings."""
        counts = {int(bucket): count for bucket, count in row.histogram["counts"].items()}
        total_bytes = row.histogram["total_bytes"]
        if weight < 1:
            counts = {bucket: kept for bucket, count in counts.items() if (kept := round(count * weight))}
            total_bytes = round(total_bytes * weight)
        self._counts.update(counts)
        self._total_bytes += total_bytes
        self.flows_of[row.host] += sum(counts.values())
        self.received += row.received
        self.aged_out += row.aged_out
        self.dropped_at_host += row.dropped_at_host

    def sizes(self) -> SizeHistogram:
        """Of all flows."""
        counts = {bucket: min(count, UINT64_MAX) for bucket, count in self._counts.items()}
        flows = sum(counts.values())
        return SizeHistogram(counts, min(max(self._total_bytes, flows), UINT64_MAX * max(flows, 1)))
