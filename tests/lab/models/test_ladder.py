"""The ladder: its rungs do what their names say, on flows made so that the answers are known."""

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from qclimb import recording
from qclimb.record import BY_HTTP, BY_RULE, BY_TRIAL, CUT, FlowRecord

from lab.cli.model import model
from lab.models import ladder, ladder_page, recorded, sources
from lab.models.flows import Flows
from orchestrator.errors import TrainingError
from orchestrator.models import report


def flows(count, seed=0):
    """Sizes that nothing but the first write tells, which is half of each; half of the flows are proven whole."""
    random = np.random.default_rng(seed)
    sizes = np.ceil(np.exp(random.normal(9, 2, count))) + 1
    features = np.zeros((count, 12), np.float32)
    features[:, 0] = np.arange(count)
    features[:, 7] = 80
    features[:, 11] = sizes // 2
    proven = np.where(np.arange(count) % 2 == 0, sizes, sizes // 2).astype(np.uint64)
    numbers = np.arange(count)
    half = numbers % 4 == 1  # of those that the footprint does not tell, every other one announces its size
    return Flows(
        *("made up", features, sizes, proven, numbers.astype(np.uint64), ["h1"] * count),
        first_write_bytes=(sizes // 2).astype(np.uint64),
        announced_bytes=np.where(half, sizes, 0).astype(np.uint64),
        announced_by=np.where(half, BY_RULE, 0).astype(np.uint64),
        flags=np.zeros(count, np.uint64),
        services=np.zeros(count, np.int64),
    )


@pytest.fixture(scope="module")
def climbed():
    return ladder.climb(flows(6000), trees=8, depth=8, seeds=[0])


def test_each_rung_is_closer_than_the_one_before(climbed):
    ratios = [climbed["rungs"][rung]["mean_log10_ratio"] for rung in "abc"]
    assert ratios[0] > 3 * ratios[1] > 3.3 * ratios[2]


def test_what_is_proven_is_the_lower_bound(climbed):
    assert climbed["rungs"]["c"]["classes"]["small"]["mean_gap_to_lower_bytes"] < (
        0.6 * climbed["rungs"]["b"]["classes"]["small"]["mean_gap_to_lower_bytes"]
    )
    assert climbed["rungs"]["c"]["below_lower"] == climbed["rungs"]["b"]["below_lower"]


def test_what_is_announced_closes_the_bounds_of_who_says_so(climbed):
    """A quarter of the flows, 1,200 of the 4,800 that were shown: enough for an upper bound, too."""
    told = climbed["sources"]
    assert told["exact"]["footprint"]["flows"] == 0.5
    assert told["exact"]["lengths"]["flows"] == 0.75
    assert told["announced"] == {"flows": 0.25, "beyond": 0, "short": 0, "cut": 0}
    proven, announced = (climbed["rungs"][rung] for rung in "de")
    assert announced["mean_log10_ratio"] < 0.8 * proven["mean_log10_ratio"]
    assert announced["coverage"] >= proven["coverage"]


def test_what_is_announced_too_high_is_told_unless_the_flow_was_cut():
    made = flows(400)
    size = made.size_bytes
    wrong = np.arange(400) < 40
    lied = replace(made, announced_bytes=(size + wrong).astype(np.uint64), announced_by=np.full(400, BY_HTTP))
    assert sources.told(lied)["announced"]["beyond"] == 0.1
    cut = replace(lied, flags=np.where(wrong, CUT, 0).astype(np.uint64))
    assert (sources.told(cut)["announced"]["beyond"], sources.told(cut)["announced"]["cut"]) == (0, 0.1)
    shares = sources.told(cut)["exact"]
    assert (shares["lengths"]["flows"], shares["lengths, or cut"]["flows"]) == (0.9, 1)
    trial = replace(lied, announced_by=np.full(400, BY_TRIAL))
    assert sources.told(trial)["announced"]["flows"] == 0
    assert "| made up | 400 |" in sources.table([sources.told(lied)])


def test_too_few_flows_to_calibrate_are_said_with_the_number(climbed):
    assert climbed["calibration"] == {"flows": 960, "needed": 1999, "enough": False, "reached": [False, False]}
    with pytest.raises(TrainingError, match="249 flows, expected at least 250"):
        ladder.climb(flows(249))


def test_windows_are_quarters_of_the_later_flows(climbed):
    row = climbed["rungs"]["a"]
    assert len(row["windows"]) == 4
    assert np.mean(row["windows"]) == pytest.approx(row["coverage"])


def test_deeper_trees_are_closer_and_more_flows_cover_more(climbed):
    depths, curve = climbed["by_depth"], climbed["learning_curve"]
    assert list(depths) == ["1", "5"], "those that the forest of depth 8 can be cut to"
    assert (
        depths["1"]["mean_log10_ratio"] > depths["5"]["mean_log10_ratio"] >= climbed["rungs"]["a"]["mean_log10_ratio"]
    )
    assert [row["flows"] for row in curve] == [150, 300, 600, 1200, 2400, 4800]
    assert curve[0]["coverage"] < curve[-1]["coverage"]


def test_a_page_has_a_row_a_rung(climbed, tmp_path):
    for make, rows in ((ladder_page.table, 5), (ladder_page.depth_table, 1), (ladder_page.curve_table, 1)):
        lines = make([climbed]).splitlines()
        assert len(lines) == 2 + rows
        assert {line.count("|") for line in lines} == {lines[0].count("|")}
    pytest.importorskip("matplotlib")
    ladder_page.draw([climbed], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000


@pytest.fixture
def path(tmp_path, records):
    recording.write(tmp_path / "some.parquet", [("h1", record) for record in records])
    return tmp_path / "some.parquet"


def said(*words):
    return CliRunner().invoke(model, [str(word) for word in words])


def test_a_recording_gives_the_rows_that_its_records_would(path, records):
    from orchestrator.ingest.recordings import kept_of

    rows, hosts = recorded.rows_of(recording.read(path))
    ordered = sorted(records, key=lambda record: (record.start_ns, record.connection))
    assert np.array_equal(rows["features"], kept_of(ordered)["features"])
    assert rows["size_bytes"].tolist() == [record.size_bytes for record in ordered]
    assert set(hosts) == {"h1"}


def test_train_check_and_refuse_by_command(path, tmp_path):
    made = said("train", path, "--trees", 5, "--depth", 6, "--beta", 0.9, "-o", tmp_path)
    assert made.exit_code == 0, made.output
    assert "240, needs 1999" in made.output
    assert (tmp_path / "some-beta0.9.onnx").stat().st_size > 1000
    good = said("check", tmp_path / "some.onnx")
    assert good.exit_code == 0, good.output
    assert "training_sha256" in good.output
    forest = tmp_path / "some.forest"
    content = bytearray(forest.read_bytes())
    content[200] ^= 1
    forest.write_bytes(content)
    bad = said("check", tmp_path / "some.onnx")
    assert (bad.exit_code, "crc32" in bad.output) == (2, True)
    for words in (["check", tmp_path / "some.onnx"], ["drift", forest, tmp_path / "none.parquet"]):
        assert f"{forest}: " in said(*words).output


def test_a_place_that_can_not_be_written_is_said_before_a_forest_is_grown(path, tmp_path):
    (tmp_path / "file").write_text("")
    for words in (
        ["train", path, "-o", tmp_path / "file" / "a"],
        ["foretell", path, "-o", tmp_path / "file" / "a.npz"],
    ):
        found = said(*words)
        assert found.exit_code == 2, found.output
        assert f"{tmp_path / 'file'}" in found.output and "expected one to write to" in found.output
        assert "tree" not in found.output


def test_a_model_of_another_making_is_refused(path, tmp_path):
    for seed in (1, 2):
        made = said("train", path, "--trees", 3, "--depth", 5, "--seed", seed, "-o", tmp_path / str(seed))
        assert made.exit_code == 0, made.output
    found = said("check", tmp_path / "1" / "some.onnx", tmp_path / "2" / "some.forest")
    assert found.exit_code == 2
    assert "forest_sha256" in found.output


def test_an_interval_says_what_so_few_flows_can_tell():
    assert report.exact_interval(2, 670) == pytest.approx((0.98926, 0.99964), abs=1e-5)
    assert report.exact_interval(0, 3687)[0] < 0.999 < report.exact_interval(0, 3688)[0]
    assert report.exact_interval(0, 10)[1] == 1 and report.exact_interval(10, 10)[0] == 0


@pytest.fixture
def impossible(path):
    """Seven of the flows have no size."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    size = table["size_bytes"].to_numpy().copy()
    size[:7] = 0
    pq.write_table(table.set_column(table.column_names.index("size_bytes"), "size_bytes", pa.array(size)), path)
    return path


def test_impossible_flows_are_told_and_not_learned_from(impossible, tmp_path):
    made = said("train", impossible, "--trees", 3, "--depth", 5, "-o", tmp_path)
    assert "7 flows, some.parquet: size_bytes is 0" in made.output
    assert "1493 flows:" in made.output
    for command in (
        ("drift", tmp_path / "some.forest", impossible),
        ("foretell", impossible, "--trees", 2, "--depth", 3, "-o", tmp_path / "bounds.npz"),
        ("ladder", impossible, "--trees", 2, "--depth", 3, "--seeds", 1),
    ):
        found = said(*command)
        assert found.exit_code == 0, found.output
        assert "some.parquet: 7 flows" in found.output


@pytest.mark.parametrize("command", ["train", "ladder", "foretell", "drift"])
def test_a_recording_of_another_format_is_refused_by_each_command_in_a_sentence(path, tmp_path, command):
    import pyarrow.parquet as pq

    assert said("train", path, "--trees", 2, "--depth", 3, "-o", tmp_path).exit_code == 0
    about = {recording.METADATA_KEY: json.dumps({"format": 9})}
    pq.write_table(pq.read_table(path).replace_schema_metadata(about), path)
    more = {"drift": [tmp_path / "some.forest", path], "foretell": [path, "-o", tmp_path / "x.npz"]}
    found = said(command, *more.get(command, [path]))
    assert (found.exit_code, found.output.count("\n")) == (2, 1)
    assert found.output.startswith("Error: recording ") and "format is 9, expected 1" in found.output


def test_drift_by_command(path, tmp_path, records):
    assert said("train", path, "--trees", 5, "--depth", 6, "-o", tmp_path).exit_code == 0
    other = tmp_path / "other.parquet"
    changed = [FlowRecord(**{**vars(record), "size_bytes": 50 * record.size_bytes}) for record in records]
    recording.write(other, [("h1", record) for record in changed])
    found = said("drift", tmp_path / "some.forest", other, "-o", tmp_path / "next")
    assert found.exit_code == 0, found.output
    assert "outside their bounds" in found.output
    assert "new model: offered" in found.output
    assert (tmp_path / "next.forest").exists()
