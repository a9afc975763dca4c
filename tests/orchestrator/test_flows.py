"""What is kept of the flows that hosts report."""

import numpy as np
import pytest
from qclimb.histogram import SizeHistogram
from qclimb.record import HAD_FOREST_BOUNDS, FlowRecord
from sqlalchemy import text

from orchestrator.errors import MissingError, StoreError
from orchestrator.ingest.recordings import LABELS_IN_MEMORY, Recordings, kept_of
from orchestrator.store.store import Store


def flow(size: int, start: int = 0, **more) -> FlowRecord:
    return FlowRecord(start_ns=start, last_write_ns=start, size_bytes=size, **more)


def test_histograms_of_deliveries_and_hosts_add_up(store):
    recordings = Recordings(store)
    recordings.add("a", "h1", [flow(100)], SizeHistogram.of([100, 200]), 0)
    recordings.add("a", "h1", [], SizeHistogram.of([300]), 2)
    recordings.add("a", "h2", [flow(5)], None, 1)
    recordings.add("b", "h1", [flow(7)], None, 0)
    assert recordings.histogram("a") == SizeHistogram.of([100, 200, 300, 5])
    assert recordings.histogram(None).flows == 5
    found = recordings.statistics("a")
    assert vars(found.records) == {"received": 2, "kept": 2, "aged_out": 0, "dropped_at_host": 3}
    assert found.hosts == {"h1": 3, "h2": 1}


def test_records_come_back_as_they_were(store, records):
    recordings = Recordings(store)
    recordings.add("a", "h1", records[:100], None, 0)
    recordings.add("a", "h2", records[100:150], None, 0)
    rows, hosts = recordings.rows("a")
    assert np.array_equal(rows, kept_of(records[:150]))
    assert hosts == ["h1"] * 100 + ["h2"] * 50


def test_of_many_recordings_the_last_are_in_memory_and_all_are_counted(store):
    recordings = Recordings(store, max_records=2)
    labels = [f"day {number}" for number in range(3 * LABELS_IN_MEMORY)]
    for _ in range(2):
        for label in labels:
            for host in ("h1", "h2"):
                recordings.add(label, host, [flow(5)], None, 1)
    last = set(labels[-LABELS_IN_MEMORY:])
    assert {label for label, _ in recordings._of_host} == set(recordings._of_label) == last
    counted = {"received": 4, "kept": 2, "aged_out": 2, "dropped_at_host": 4}
    assert all(vars(recordings.statistics(label).records) == counted for label in labels)


def test_a_heartbeat_leaves_nothing_behind(store):
    recordings = Recordings(store)
    recordings.add("a", "h1", [], SizeHistogram(), 0)
    assert recordings.labels() == []


def test_the_oldest_records_age_out_and_are_counted_but_their_sizes_stay(store):
    recordings = Recordings(store, max_records=25)
    for batch in range(6):
        recordings.add("a", f"h{batch % 2}", [flow(batch + 1)] * 10, None, 0)
    recordings.add("b", "h0", [flow(1)] * 10, None, 0)
    rows, _ = recordings.rows("a")
    assert sorted(set(rows["size_bytes"].tolist())) == [5, 6]
    found = recordings.statistics("a")
    assert found.flows == 60
    assert vars(found.records) == {"received": 60, "kept": 20, "aged_out": 40, "dropped_at_host": 0}


def test_statistics_tell_how_well_the_bounds_in_force_held(store):
    recordings = Recordings(store)
    bounded = {"flags": HAD_FOREST_BOUNDS, "lower_bytes": 10, "upper_bytes": 20}
    recordings.add("a", "h1", [flow(15, **bounded), flow(20, **bounded), flow(21, **bounded), flow(9)], None, 0)
    assert vars(recordings.statistics("a").forecasts) == {"flows": 3, "coverage": pytest.approx(2 / 3)}


def test_an_unknown_label_names_those_that_there_are(store):
    recordings = Recordings(store)
    recordings.add("monday", "h1", [flow(1)], None, 0)
    with pytest.raises(MissingError, match=r"'mondya'.*'monday'"):
        recordings.histogram("mondya")


def test_flows_survive_a_restart(tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    store = Store(url)
    Recordings(store).add("a", "h1", [flow(1)], None, 0)
    store.close()
    assert Recordings(Store(url)).histogram("a").flows == 1


def test_a_database_of_another_version_or_program_is_refused(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'a.db'}")
    with store.writing() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    store.close()
    with pytest.raises(StoreError, match="schema version is 9999"):
        Store(f"sqlite:///{tmp_path / 'a.db'}")
    other = Store(f"sqlite:///{tmp_path / 'b.db'}")
    with other.writing() as connection:
        connection.execute(text("drop table settings"))
    other.close()
    with pytest.raises(StoreError, match="not qclimb's"):
        Store(f"sqlite:///{tmp_path / 'b.db'}")
    with pytest.raises(StoreError, match="expected sqlite:///"):
        Store("mysql://root:secret@db/x")
    (tmp_path / "c.db").write_bytes(b"no database at all, but long enough to be looked at as one" * 20)
    with pytest.raises(StoreError, match="not a database"):
        Store(f"sqlite:///{tmp_path / 'c.db'}")
