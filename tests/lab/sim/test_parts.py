"""Parts of the engine by themselves, with sanitizers: event queue, port by rank, window."""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENGINE = HERE.parents[2] / "lab/sim/engine"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A program of this folder's, by name."""
    folder = tmp_path_factory.mktemp("checks")

    def build(name):
        flags = ["-std=c++17", "-O1", "-g", "-DSIM_CHECKS", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
        if not (folder / name).exists():
            words = ["c++", *flags, f"-I{ENGINE}", "-o", str(folder / name), str(HERE / f"{name}.cpp")]
            subprocess.run(words, check=True)
        return folder / name

    return build


@pytest.mark.parametrize("width_bits", [4, 11, 20])
@pytest.mark.parametrize("seed", [1, 2])
def test_events_come_in_order_of_time_and_of_their_putting_in(built, width_bits, seed):
    ran = subprocess.run([built("calendar_check"), str(width_bits), str(seed)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("limit_bytes", "is_deep", "drops"), [(36_864, False, True), (900_000, True, True), (10**9, True, False)]
)
def test_a_port_by_rank_serves_and_drops_as_a_search_would_however_much_waits(built, limit_bytes, is_deep, drops):
    ran = subprocess.run([built("ranks_check"), str(limit_bytes), "1"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    deepest, dropped = int(ran.stdout.split()[0]), int(ran.stdout.split()[3])
    assert (deepest > 1_000) == is_deep
    assert (dropped > 0) == drops


@pytest.mark.parametrize(
    ("alpha_1024ths", "windows", "after"),
    [
        (1024, 0, 500),  # RFC 8257, Linux: the first mark halves
        (0, 0, 969),  # ns-2: alpha is a sixteenth by then, the window having been weighed
        (1024, 11, 750),  # (15/16)^11 is a half
        (1024, 200, 1000),  # not stuck at 15/1024, which would take 7
    ],
)
def test_the_first_mark_takes_half_of_alpha_which_falls_to_0_without_marks(built, alpha_1024ths, windows, after):
    ran = subprocess.run([built("congestion_check"), str(alpha_1024ths), str(windows)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    before, found = map(int, ran.stdout.split())
    assert before == 1000
    assert found == pytest.approx(after, abs=6)
