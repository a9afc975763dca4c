"""The simulator's tests once more, with the engine's address and undefined-behaviour sanitizers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.system
def test_under_sanitizers_all_tests_of_the_simulator_pass() -> None:
    words = ["-q", "-m", "not system", "-p", "no:cacheprovider", str(HERE)]
    environment = os.environ | {"QCLIMB_SANITIZED": "1"}
    ran = subprocess.run([sys.executable, "-m", "pytest", *words], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-4000:]
