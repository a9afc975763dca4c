"""Recordings: finished flows of a traffic, as one compact Parquet file; what forests are trained and measured on.

A row is a flow as libqclimb saw it (`FlowRecord`), a column one of `COLUMNS`; the file's metadata tell who recorded
what, how, and what was left out. Reading trusts nothing: rows that can't be are left out, counted and named.
Needs pyarrow, of the extras `lab` and `orchestrator`.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .errors import RecordError
from .features import FEATURES, address_number
from .record import PARTLY_UNOBSERVED, FlowRecord

FORMAT = 2
OLDER = 1
"""Without `LATER`: nobody looked at what flows announced."""
METADATA_KEY = b"qclimb.recording"

COLUMNS: Mapping[str, tuple[pa.DataType, str]] = {
    "host": (pa.string(), "which host saw it"),
    "task": (pa.string(), "job that ran when the flow started"),
    "process": (pa.string(), "name of the process, at most 15 bytes"),
    "pid": (pa.uint32(), "number of the process; with host and task: the task in OPTAX's sense"),
    "connection": (pa.uint32(), "connections numbered in the order of their first flow"),
    "flow_index": (pa.uint32(), "place of the flow on its connection, from 0"),
    "start_ns": (pa.uint64(), "first write, since the recording's first one"),
    "last_write_ns": (pa.uint64(), "last write, the same clock"),
    "start_us": (pa.uint64(), "first write, since the process started"),
    "gap_us": (pa.uint64(), "since the previous flow of process, peer address, service port ended; at most 1e9"),
    **{f"last_size_bytes_{i}": (pa.uint64(), f"size of the {i}. last flow there; 0: none") for i in range(1, 6)},
    "local_addr": (pa.string(), "five-tuple: sender"),
    "local_port": (pa.uint16(), "five-tuple: sender"),
    "peer_addr": (pa.string(), "five-tuple: receiver"),
    "peer_port": (pa.uint16(), "five-tuple: receiver (the protocol is TCP)"),
    "role": (pa.uint8(), "1: the sender accepted the connection, 0: it connected"),
    "first_write_bytes": (pa.uint64(), "footprint, first sample: bytes that the first call asked to send"),
    "footprint_bytes": (
        pa.uint64(),
        "footprint, second sample: bytes asked for before the first ACK was seen, at a call; else in all",
    ),
    "size_bytes": (pa.uint64(), "what it turned out to be, at least 1"),
    "flags": (pa.uint8(), "of the record: 1 closed, 2 a wait ran out, 8 told by the application, 128 cut in a message"),
    "announced_bytes": (pa.uint64(), "what the flow's own bytes, or those before it, said of its size; 0: nothing"),
    "announced_by": (pa.uint8(), "1 HTTP's Content-Length, 2 a learned rule, 3 a rule on trial"),
}
LATER = ("announced_bytes", "announced_by")
"""Name: type and meaning of each column. There are two samples of the footprint, since the record has two."""

FEATURE_IDS_BY_COLUMN = {name: FEATURES.index(name) for name in FEATURES if name in COLUMNS}
_BIG = 1 << 62
_NUMBERS = tuple(name for name, (kind, _) in COLUMNS.items() if kind != pa.string())
_TEXTS = tuple(name for name in COLUMNS if name not in _NUMBERS)


@dataclass(frozen=True, eq=False)
class Recording:
    """Flows by column, in the order of their start; all that are left are possible.

    numbers     each [n]: the columns that are numbers, uint64
    texts       each [n]: the others, as objects
    features    float32 [n, 12], in the order of `features.FEATURES`
    about       who recorded what, and how (JSON)
    refused     rows left out when this was read, by what was wrong with them
    """

    numbers: Mapping[str, NDArray[np.uint64]]
    texts: Mapping[str, NDArray[np.object_]]
    features: NDArray[np.float32]
    about: Mapping[str, Any] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)

    @property
    def flows(self) -> int:
        """How many there are."""
        return len(self.numbers["size_bytes"])

    def digest(self) -> str:
        """SHA-256 over what a forest learns from: features, sizes and times; hexadecimal."""
        found = hashlib.sha256()
        for array in (self.features, self.numbers["size_bytes"], self.numbers["start_ns"]):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


def write(
    path: Path,
    records: Sequence[tuple[str, FlowRecord]],
    phases: Sequence[tuple[int, str]] = (),
    about: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Writes (host, record) pairs; returns how many were kept and left out, as the file's metadata tell, too.

    Left out are flows seen only in part, and flows that never left their host. `phases`: (CLOCK_MONOTONIC ns, task)
    in the order of time; flows that start before the first belong to the task "".
    """
    local = [host_record for host_record in records if _stays(host_record[1])]
    partly = [each for each in records if each[1].flags & PARTLY_UNOBSERVED and not _stays(each[1])]
    kept = [each for each in records if not (each[1].flags & PARTLY_UNOBSERVED or _stays(each[1]))]
    kept.sort(key=lambda each: (each[1].start_ns, each[0], each[1].connection))
    if not kept:
        raise RecordError(f"{path.name}: none of {len(records)} flows went from one host to another, expected some")
    counts = {"flows": len(kept), "partly_unobserved": len(partly), "within_a_host": len(local)}
    begin = kept[0][1].start_ns
    number_of: dict[tuple[str, int], int] = {}
    connections = [number_of.setdefault((host, record.connection), len(number_of)) for host, record in kept]
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for (host, record), connection in zip(kept, connections, strict=True):
        row = vars(record) | {
            "host": host,
            "task": next((task for at, task in reversed(phases) if at <= record.start_ns), ""),
            "process": record.comm,
            "connection": connection,
            "start_ns": record.start_ns - begin,
            "last_write_ns": record.last_write_ns - begin,
            "footprint_bytes": record.footprint_lower_bytes,
        }
        row |= {f"last_size_bytes_{i + 1}": size for i, size in enumerate(record.last_size_bytes)}
        for name, values in columns.items():
            values.append(row[name])
    told = {"format": FORMAT, **(about or {}), "counts": counts}
    _write_columns(path, columns, told)
    return counts


def _stays(record: FlowRecord) -> bool:
    return record.local_addr == record.peer_addr or record.peer_addr.startswith("127.")


def _write_columns(path: Path, columns: Mapping[str, Sequence[Any]], about: Mapping[str, Any]) -> None:
    arrays = {
        name: pa.array(columns[name], kind) if kind != pa.string() else pa.array(columns[name]).dictionary_encode()
        for name, (kind, _) in COLUMNS.items()
    }
    _write_table(path, pa.table(arrays).replace_schema_metadata({METADATA_KEY: json.dumps(about)}))


def _write_table(path: Path, table: pa.Table) -> None:
    # Times, ports and sizes repeat little and differ little: delta or split bytes pack them far closer than plain.
    delta = dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED")
    pq.write_table(
        table,
        path,
        compression="zstd",
        compression_level=19,
        use_dictionary=list(_TEXTS),
        column_encoding=delta,
        write_statistics=False,
    )


def join(path: Path, parts: Sequence[Path], pause_ns: int = 10**9) -> None:
    """Writes parts that were recorded one after another as one recording: times and connections count on."""
    tables, abouts = [], []
    begin = connection = 0
    for part in parts:
        table = pq.read_table(part)
        about = _about(part, table)
        abouts += about.get("parts", [about])  # a part may be joined of parts itself
        for name, more in {"start_ns": begin, "last_write_ns": begin, "connection": connection}.items():
            moved = table[name].to_numpy().astype(np.uint64) + np.uint64(more)
            table = table.set_column(table.column_names.index(name), name, pa.array(moved, COLUMNS[name][0]))
        begin = int(table["last_write_ns"].to_numpy().max()) + pause_ns
        connection = int(table["connection"].to_numpy().max()) + 1
        for name in LATER if about["format"] == OLDER else ():
            table = table.append_column(name, pa.array(np.zeros(table.num_rows), COLUMNS[name][0]))
        for name in _TEXTS:  # a dictionary of each part's own
            table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.string()))
        tables.append(table)
    whole = pa.concat_tables(table.replace_schema_metadata() for table in tables)
    joined = {"format": FORMAT, "name": abouts[0].get("name"), "parts": abouts}
    whole = whole.replace_schema_metadata({METADATA_KEY: json.dumps(joined)}).combine_chunks()
    for name in _TEXTS:
        whole = whole.set_column(whole.column_names.index(name), name, whole[name].dictionary_encode())
    _write_table(path, whole)


def read(path: Path) -> Recording:
    """A recording from its file.

    Raises:
        RecordError: no recording, or of another format; a column is missing or not of its kind.
    """
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise RecordError(f"recording {path}: is not there, expected a Parquet file") from None
    except (OSError, pa.ArrowException) as error:
        errno = getattr(error, "errno", None)
        why = os.strerror(errno) if errno else "is none that can be read"
        raise RecordError(f"recording {path}: {why}, expected a Parquet file") from error
    about = _about(path, table)
    columns: dict[str, NDArray[Any]] = {}
    for name in COLUMNS:
        if name in LATER and about["format"] == OLDER:
            columns[name] = np.zeros(table.num_rows, dtype=np.uint64)
            continue
        if name not in table.column_names:
            raise RecordError(f"recording {path}: the column {name} is missing, expected {', '.join(COLUMNS)}")
        column = table[name].combine_chunks()
        if column.null_count:
            raise RecordError(f"recording {path}: {name} has {column.null_count} empty cells, expected none")
        columns[name] = np.asarray(column.to_numpy(zero_copy_only=False))
        wanted = "iu" if name in _NUMBERS else "OU"
        if columns[name].dtype.kind not in wanted:
            raise RecordError(f"recording {path}: {name} is {columns[name].dtype}, expected {COLUMNS[name][0]}")
    good, refused = _possible(columns)
    numbers = {name: columns[name][good].astype(np.uint64) for name in _NUMBERS}
    texts = {name: columns[name][good].astype(object) for name in _TEXTS}
    order = np.argsort(numbers["start_ns"], kind="stable")
    numbers = {name: values[order] for name, values in numbers.items()}
    texts = {name: values[order] for name, values in texts.items()}
    return Recording(numbers, texts, _features(numbers, texts), about, refused)


def _about(path: Path, table: pa.Table) -> dict[str, Any]:
    found = (table.schema.metadata or {}).get(METADATA_KEY)
    if found is None:
        raise RecordError(
            f"recording {path}: no metadata {METADATA_KEY.decode()}, expected a file of `qclimb lab record`"
        )
    try:
        about = dict(json.loads(found))
    except (ValueError, TypeError):
        raise RecordError(f"recording {path}: metadata {METADATA_KEY.decode()} is no JSON object") from None
    if about.get("format") not in (OLDER, FORMAT):
        raise RecordError(f"recording {path}: format is {about.get('format')!r}, expected {OLDER} or {FORMAT}")
    return about


def _possible(columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows can be, and how many can't for each reason (the first that applies)."""
    rules: dict[str, NDArray[np.bool_]] = {}
    for name in _NUMBERS:
        if columns[name].dtype.kind == "i":
            rules[f"{name} is negative"] = columns[name] < 0
    rules["size_bytes is 0"] = columns["size_bytes"] == 0
    rules["last_write_ns is before start_ns"] = columns["last_write_ns"] < columns["start_ns"]
    rules["size_bytes is above 2^62"] = columns["size_bytes"].astype(np.float64) > _BIG
    rules["role is neither 0 nor 1"] = columns["role"].astype(np.int64) > 1
    rules["flags say that only a part was seen"] = (columns["flags"].astype(np.int64) & PARTLY_UNOBSERVED) != 0
    for name in ("local_addr", "peer_addr"):
        wrong = {text for text in set(columns[name]) if not _is_address(text)}
        rules[f"{name} is no address"] = np.isin(columns[name].astype(str), [str(text) for text in wrong])
    good = np.ones(len(columns["size_bytes"]), dtype=np.bool_)
    refused: dict[str, int] = {}
    for reason, wrong_rows in rules.items():
        if count := int((good & wrong_rows).sum()):
            refused[reason] = count
        good &= ~wrong_rows
    return good, refused


def _is_address(text: object) -> bool:
    try:
        address_number(str(text))
    except ValueError:
        return False
    return True


def _features(
    numbers: Mapping[str, NDArray[np.uint64]], texts: Mapping[str, NDArray[np.object_]]
) -> NDArray[np.float32]:
    """What the library knew when each flow started, as float32 (to nearest even)."""
    found = np.zeros((len(numbers["size_bytes"]), len(FEATURES)), dtype=np.uint64)
    for name, feature in FEATURE_IDS_BY_COLUMN.items():
        if name in numbers:
            found[:, feature] = numbers[name]
        else:
            number_of = {text: address_number(text) for text in set(texts[name])}
            found[:, feature] = [number_of[text] for text in texts[name]]
    port = np.where(numbers["role"] == 1, numbers["local_port"], numbers["peer_port"])
    found[:, FEATURES.index("service_port")] = port
    return found.astype(np.float32)
