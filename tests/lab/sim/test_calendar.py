"""The engine's event queue, by itself, with address and undefined-behaviour sanitizers."""

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ENGINE = HERE.parents[2] / "lab/sim/engine"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("calendar") / "check"
    flags = ["-std=c++17", "-O1", "-g", "-DSIM_CHECKS", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    words = ["c++", *flags, f"-I{ENGINE}", "-o", str(path), str(HERE / "calendar_check.cpp")]
    subprocess.run(words, check=True)
    return path


@pytest.mark.parametrize("width_bits", [4, 11, 20])
@pytest.mark.parametrize("seed", [1, 2])
def test_events_come_in_order_of_time_and_of_their_putting_in(program, width_bits, seed):
    ran = subprocess.run([program, str(width_bits), str(seed)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
