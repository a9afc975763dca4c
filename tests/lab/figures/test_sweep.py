"""Sweeps: nothing is run twice, nothing is left half, whatever is killed and whoever sweeps beside."""

import errno
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from lab.cli.figures import figures
from lab.figures import points
from lab.figures.sweep import run_all
from lab.sim import EngineError, Experiment, SimulationError, Topology, Workload

SMALL = Experiment(Topology(2, 1, 3), workload=Workload("homa_w3_googleall_bytes"), flows=200)
ROOT = Path(__file__).parents[3]
TWELVE = {seed: replace(SMALL, seed=seed) for seed in range(12)}
SWEEP = """
import os, signal, sys
from pathlib import Path
from lab.figures.sweep import run_all
from lab.sim import Experiment, Topology, Workload
words = Workload("homa_w3_googleall_bytes")
runs = {seed: Experiment(Topology(2, 1, 3), workload=words, flows=200, seed=seed) for seed in range(12)}
last = int(sys.argv[2])
print("begins", flush=True)
kill = lambda done: done < last or os.kill(os.getpid(), signal.SIGKILL)
print(run_all(runs, Path(sys.argv[1]), jobs=2, progress=kill).computed)
"""


def sweep(folder, last=13):
    """TWELVE as a program of its own, which is killed once it has so many points; it has begun."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "gnmi-models"))
    words = [sys.executable, "-c", SWEEP, str(folder), str(last)]
    program = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)
    assert program.stdout.readline() == "begins\n"
    return program


def test_a_sweep_that_was_killed_goes_on_with_what_is_missing(tmp_path):
    first = sweep(tmp_path, last=4)
    assert first.communicate(timeout=600)[0] == "" and first.returncode == -signal.SIGKILL
    there = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.npz")}
    assert 4 <= len(there) < 12
    assert run_all(TWELVE, tmp_path, jobs=2).computed == 12 - len(there)
    assert len(list(tmp_path.glob("*.npz"))) == 12
    assert all(path.stat().st_mtime_ns == then for path, then in there.items())
    left = list(tmp_path.glob("*.lock"))  # of a point that was whole when its sweep was killed, nobody holds it
    assert not list(tmp_path.glob("*.part")) and all(path.with_suffix(".npz") in there for path in left)


def test_two_sweeps_at_once_share_the_work_and_never_show_half_a_file(tmp_path):
    other, here = sweep(tmp_path), []
    ours = threading.Thread(target=lambda: here.append(run_all(TWELVE, tmp_path, jobs=2)))
    ours.start()
    store, seen = points.store(tmp_path), set()
    while ours.is_alive() or other.poll() is None:
        for path in tmp_path.glob("*.npz"):
            assert store.find(path.stem) is not None, f"{path.name} is there, but not whole"
            seen.add(path.stem)
        time.sleep(0.005)
    assert int(other.communicate()[0]) + here[0].computed == 12
    assert len(list(tmp_path.glob("*.npz"))) == 12 and seen


def test_a_sweep_waits_for_a_point_that_another_one_computes(tmp_path):
    name, other = points.name_of(SMALL), points.store(tmp_path)
    assert other.claim(name)
    point, found = points.compute(SMALL), []
    waiting = threading.Thread(target=lambda: found.append(run_all({"one": SMALL}, tmp_path)))
    waiting.start()
    time.sleep(0.3)
    assert waiting.is_alive() and not found
    other.save(name, point)
    waiting.join(120)
    assert found[0].computed == 0
    assert found[0]["one"].fct_us.tobytes() == point.fct_us.tobytes()


def test_a_damaged_file_is_computed_again(tmp_path):
    whole = run_all({"one": SMALL}, tmp_path)
    path = next(tmp_path.glob("*.npz"))
    for damage in (b"", b"half a file", path.read_bytes()[:-50]):
        path.write_bytes(damage)
        again = run_all({"one": SMALL}, tmp_path)
        assert again.computed == 1
        assert again["one"].fct_us.tobytes() == whole["one"].fct_us.tobytes()


def test_equal_experiments_are_run_once_and_what_fails_keeps_the_rest(tmp_path, monkeypatch):
    compute = points.compute

    def failing(experiment):
        if experiment.seed == 3:
            raise SimulationError("no")
        return compute(experiment)

    monkeypatch.setattr(points, "compute", failing)
    runs = {n: replace(SMALL, seed=n // 2) for n in range(8)}
    told = []
    with pytest.raises(SimulationError, match=r"^no$"):
        run_all(runs, tmp_path, 1, told.append)
    assert told == [2, 4, 6]
    monkeypatch.setattr(points, "compute", compute)
    found = run_all(runs, tmp_path, 1, told.append)
    assert found.computed == 1 and len(found) == 8
    assert np.array_equal(found[0].fct_us, found[1].fct_us)


def test_a_full_disk_is_named_by_the_file_and_leaves_nothing_half(tmp_path, monkeypatch):
    def full(point, path):
        path.write_bytes(b"half a file")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(points, "_write", full)
    with warnings.catch_warnings(record=True) as said, pytest.raises(OSError, match="No space left") as caught:
        run_all({seed: replace(SMALL, seed=seed) for seed in range(6)}, tmp_path, 2)
    assert Path(caught.value.filename).parent == tmp_path and caught.value.filename.endswith(".npz")
    assert not list(tmp_path.iterdir()) and not said


def test_a_worker_with_another_engine_is_refused(tmp_path, monkeypatch):
    from lab.figures.sweep import _compute

    name = points.name_of(SMALL)
    monkeypatch.setattr(points, "_engine_digest", lambda: b"another")
    with pytest.raises(EngineError, match="has another version of the engine"):
        _compute(name, SMALL)


def test_bad_words_are_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setitem(sys.modules, "ray", None)  # as where it is not installed
    for words, sentence in (
        (["bigspine-5a", "--quick", "--cluster", "--cache", str(tmp_path / "a")], "pip install 'qclimb[cluster]'"),
        (["--cluster", "bigspine-5a"], "--cluster took the page 'bigspine-5a' for an address"),
        (["bigspine-5a", "--quick", "--cache", str(tmp_path / "file")], "is a file"),
        (["bigspine-5a", "--jobs", "0"], "0 is not in the range"),
    ):
        found = CliRunner().invoke(figures, words)
        assert found.exit_code == 2 and sentence in found.output


def test_a_local_ray_computes_the_same(tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (pip install 'qclimb[cluster]')")
    path = os.pathsep.join(str(ROOT / part) for part in ("", "gnmi-models"))
    words = [
        "-c",
        "from lab.cli.figures import figures; figures()",
        "bigspine-5a",
        "--quick",
        "--json",
        "--jobs",
        "2",
        "--cluster=local",
    ]
    words += ["--cache", str(tmp_path / "ray"), "--output", str(tmp_path)]
    made = subprocess.run(
        [sys.executable, *words], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=600
    )
    assert made.returncode == 0, made.stderr
    here = CliRunner().invoke(
        figures, ["bigspine-5a", "--quick", "--json", "--cache", str(tmp_path / "here"), "--output", str(tmp_path)]
    )
    assert json.loads(made.stdout) == json.loads(here.stdout)
    names = [{path.name for path in (tmp_path / where).glob("*.npz")} for where in ("ray", "here")]
    assert names[0] == names[1] and len(names[0]) > 3


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "somewhere", "127.0.0.1:x"])
def test_a_ray_that_is_not_there_is_one_sentence(tmp_path, address):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (pip install 'qclimb[cluster]')")
    with pytest.raises(SimulationError, match=f"--cluster is '{address}', where no Ray answers") as caught:
        run_all({"one": SMALL}, tmp_path, cluster=address)
    assert "\n" not in str(caught.value)
