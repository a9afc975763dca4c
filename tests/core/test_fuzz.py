"""The fuzz targets of hostlib/fuzz: a short run finds nothing, and a check that is taken out is found."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.core.core import INCLUDE

FUZZ = INCLUDE.parents[1] / "fuzz"
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all"]
RUNS = 20_000


def build(target: Path, name: str, include: Path) -> Path:
    argv = ["clang", *FLAGS, f"-I{include}", "-o", target, FUZZ / f"{name}_fuzz.c"]
    subprocess.run(argv, check=True, capture_output=True, text=True)
    return target


@pytest.fixture(scope="module", autouse=True)
def clang(tmp_path_factory: pytest.TempPathFactory) -> None:
    if not shutil.which("clang"):
        pytest.skip("needs clang with libFuzzer")
    empty = tmp_path_factory.mktemp("clang") / "empty.c"
    empty.write_text(
        "#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *a, size_t b) { (void)a; (void)b; return 0; }"
    )
    made = subprocess.run(["clang", *FLAGS, "-o", empty.with_suffix(""), empty], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this clang has no libFuzzer: {made.stderr[-300:]}")


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    subprocess.run([sys.executable, FUZZ / "seeds.py", folder], check=True)
    return folder


def fuzz(program: Path, corpus: Path, runs: int) -> subprocess.CompletedProcess[str]:
    argv = [program, f"-runs={runs}", "-seed=1", "-max_len=4096", f"-artifact_prefix={program.parent}/", corpus]
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize("name", ["policy", "model", "length"])
def test_a_short_run_finds_nothing(name: str, seeds: Path, tmp_path: Path) -> None:
    program = build(tmp_path / "fuzz", name, INCLUDE)
    corpus = shutil.copytree(seeds / name, tmp_path / "corpus")
    done = fuzz(program, corpus, RUNS)
    assert done.returncode == 0, done.stderr[-3000:]
    ran = re.search(r"Done (\d+) runs", done.stderr)
    assert ran is not None
    assert int(ran[1]) >= RUNS


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "header", "check"),
    [
        ("policy", "policy.h", "policy->priorities > QCLIMB_MAX_PRIORITIES"),
        ("policy", "policy.h", "policy->threshold_bytes[p] <= policy->threshold_bytes[p - 1]"),
        ("policy", "policy.h", "dscps >> policy->dscp[p] & 1"),
        ("model", "model.h", "(uint32_t)root >= view.header.nodes"),
        ("model", "model.h", "level >= view.header.depth"),
        ("model", "model.h", "view.header.nodes - count < 2"),
        ("length", "length.h", "end > head_bytes"),
        ("length", "length.h", "rule->tag_offset >= head_bytes"),
        ("length", "length.h", "end < 12"),
    ],
)
def test_a_check_that_is_missing_is_found(name: str, header: str, check: str, seeds: Path, tmp_path: Path) -> None:
    include = shutil.copytree(INCLUDE, tmp_path / "include")
    text = (include / "qclimb" / header).read_text()
    assert text.count(check) == 1
    (include / "qclimb" / header).write_text(text.replace(check, "0"))
    program = build(tmp_path / "fuzz", name, include)
    corpus = shutil.copytree(seeds / name, tmp_path / "corpus")
    done = fuzz(program, corpus, 500 * RUNS)
    assert "SUMMARY: " in done.stderr, f"{check} was not missed in {500 * RUNS} runs"
    assert done.returncode != 0
