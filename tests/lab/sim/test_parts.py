"""Parts of the engine by themselves: event queue, port by rank, window."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENGINE = HERE.parents[2] / "lab/sim/engine"


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Runs a check of this folder's, by name."""
    program = tmp_path_factory.mktemp("checks") / "parts_check"
    flags = ["-std=c++17", "-Og", "-g1", "-DSIM_CHECKS", "-D_GLIBCXX_ASSERTIONS"]
    sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] * bool(os.environ.get("QCLIMB_SANITIZED"))
    subprocess.run(["c++", *flags, *sanitized, f"-I{ENGINE}", "-o", program, HERE / "parts_check.cpp"], check=True)
    return lambda *words: subprocess.run([program, *map(str, words)], capture_output=True, text=True)


@pytest.mark.parametrize("width_bits", [4, 11, 20])
@pytest.mark.parametrize("seed", [1, 2])
def test_events_come_in_order_of_time_and_of_their_putting_in(check, width_bits, seed):
    ran = check("calendar_check", width_bits, seed)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("limit_bytes", "is_deep", "drops"), [(36_864, False, True), (900_000, True, True), (10**9, True, False)]
)
def test_a_port_by_rank_serves_and_drops_as_a_search_would_however_much_waits(check, limit_bytes, is_deep, drops):
    ran = check("ranks_check", limit_bytes, 1)
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
def test_the_first_mark_takes_half_of_alpha_which_falls_to_0_without_marks(check, alpha_1024ths, windows, after):
    ran = check("congestion_check", alpha_1024ths, windows)
    assert ran.returncode == 0, ran.stderr
    before, found = map(int, ran.stdout.split())
    assert before == 1000
    assert found == pytest.approx(after, abs=6)
