"""Recordings as Parquet: what goes in comes out, and what can't be is counted and named."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from qclimb import recording
from qclimb.errors import RecordError
from qclimb.record import PARTLY_UNOBSERVED, FlowRecord

NANO = 10**9


def flow(number=0, **changes):
    fields = {
        "start_ns": NANO + number * 1000,
        "last_write_ns": NANO + number * 1000 + 10,
        "size_bytes": 1000 + number,
        "first_write_bytes": 500,
        "footprint_lower_bytes": 700,
        "start_us": 17 * number,
        "gap_us": 3,
        "last_size_bytes": (5, 4, 3, 2, 1),
        "connection": 77,
        "local_addr": "198.19.1.1",
        "peer_addr": "198.19.2.1",
        "local_port": 40000,
        "peer_port": 11211,
        "comm": "memcached",
    }
    return FlowRecord(**{**fields, **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.parquet"


def test_features_are_those_that_the_library_knew(path):
    records = [("h1", flow(n, role=n % 2)) for n in range(5)]
    recording.write(path, records)
    found = recording.read(path)
    expected = np.array([record.features() for _, record in records], np.uint64).astype(np.float32)
    assert np.array_equal(found.features, expected)
    assert found.numbers["size_bytes"].tolist() == [1000, 1001, 1002, 1003, 1004]
    assert found.numbers["footprint_bytes"].tolist() == [700] * 5
    assert set(found.texts["process"]) == {"memcached"}


def test_flows_that_never_left_their_host_or_were_seen_in_part_are_left_out_and_counted(path):
    records = [
        ("h1", flow(0)),
        ("h1", flow(1, flags=PARTLY_UNOBSERVED)),
        ("h1", flow(2, peer_addr="198.19.1.1")),
        ("h1", flow(3, local_addr="127.0.0.1", peer_addr="127.0.0.1")),
    ]
    counts = recording.write(path, records)
    assert counts == {"flows": 1, "partly_unobserved": 1, "within_a_host": 2}
    assert recording.read(path).about["counts"] == counts


def test_a_flow_belongs_to_the_task_that_ran_when_it_started(path):
    phases = [(NANO + 1000, "kmeans"), (NANO + 3000, "sgd")]
    recording.write(path, [("h1", flow(n)) for n in range(5)], phases)
    assert recording.read(path).texts["task"].tolist() == ["", "kmeans", "kmeans", "sgd", "sgd"]


def test_the_digest_changes_with_any_size(path):
    recording.write(path, [("h1", flow(n)) for n in range(5)])
    first = recording.read(path).digest()
    recording.write(path, [("h1", flow(n, size_bytes=999 if n == 3 else 1000 + n)) for n in range(5)])
    assert recording.read(path).digest() != first


def test_parts_are_joined_in_time(path, tmp_path):
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for part, host in zip(parts, ("h1", "h2"), strict=True):
        recording.write(part, [(host, flow(n)) for n in range(3)], about={"name": "kv"})
    recording.join(path, parts)
    found = recording.read(path)
    assert found.texts["host"].tolist() == ["h1"] * 3 + ["h2"] * 3
    assert found.numbers["connection"].tolist() == [0] * 3 + [1] * 3
    assert (np.diff(found.numbers["start_ns"].astype(float)) > 0).all()
    recording.join(path, [path, parts[0]])
    assert [part["name"] for part in recording.read(path).about["parts"]] == ["kv"] * 3


def altered(path, column, values):
    recording.write(path, [("h1", flow(n)) for n in range(4)])
    table = pq.read_table(path)
    table = table.set_column(table.column_names.index(column), column, pa.array(values))
    pq.write_table(table, path)


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("size_bytes", [-5, 1, 2, 3], "size_bytes is negative"),
        ("size_bytes", [0, 1, 2, 3], "size_bytes is 0"),
        ("size_bytes", np.array([2**63, 1, 2, 3], np.uint64), "size_bytes is above 2^62"),
        ("last_write_ns", [0, 0, 10**9, 10**9], "last_write_ns is before start_ns"),
        ("role", [7, 0, 0, 1], "role is neither 0 nor 1"),
        ("flags", [16, 0, 0, 0], "flags say that only a part was seen"),
        ("peer_addr", ["1.2.3", "198.19.2.1", "198.19.2.1", "198.19.2.1"], "peer_addr is no address"),
    ],
)
def test_impossible_flows_are_counted_named_and_left_out(path, column, values, reason):
    altered(path, column, values)
    found = recording.read(path)
    assert found.refused == {reason: 1}
    assert found.flows == 3


def test_what_is_no_recording_is_refused(path):
    with pytest.raises(RecordError, match=r"absent\.parquet: is not there, expected a Parquet file"):
        recording.read(path.with_name("absent.parquet"))
    path.write_text("hello")
    with pytest.raises(RecordError, match=rf"^recording {path}: is none that can be read, expected a Parquet file$"):
        recording.read(path)
    pq.write_table(pa.table({"size_bytes": [1]}), path)
    with pytest.raises(RecordError, match="no metadata"):
        recording.read(path)
    about = {recording.METADATA_KEY: json.dumps({"format": 3})}
    pq.write_table(pa.table({"size_bytes": [1]}).replace_schema_metadata(about), path)
    with pytest.raises(RecordError, match="format is 3, expected 1 or 2"):
        recording.read(path)
    about = {recording.METADATA_KEY: json.dumps({"format": 1})}
    pq.write_table(pa.table({"size_bytes": [1]}).replace_schema_metadata(about), path)
    with pytest.raises(RecordError, match="the column host is missing"):
        recording.read(path)


def test_a_column_of_another_kind_is_named(path):
    altered(path, "size_bytes", ["a", "b", "c", "d"])
    with pytest.raises(RecordError, match="size_bytes is"):
        recording.read(path)
    altered(path, "size_bytes", [1.5, 2.0, 3.0, 4.0])
    with pytest.raises(RecordError, match="size_bytes is float64"):
        recording.read(path)


def test_a_recording_of_nothing_between_hosts_is_refused(path):
    with pytest.raises(RecordError, match="none of 1 flows"):
        recording.write(path, [("h1", flow(peer_addr="198.19.1.1"))])
