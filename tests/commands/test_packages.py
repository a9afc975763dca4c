"""What is shipped: a wheel of its platform, a source distribution that builds, extras that are named."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = "matplotlib jinja2 redis ray pyspark tabulate"


def run_setup(checkout: Path, *words: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", *words],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What git knows of this checkout, copied: nothing that was built, and place for what setuptools leaves."""
    place = tmp_path_factory.mktemp("checkout")
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("docs/", "tests/")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes((ROOT / name).read_bytes())
    return place


@pytest.fixture(scope="module")
def source(checkout: Path) -> Path:
    """The source distribution."""
    run_setup(checkout, "sdist", "--dist-dir", str(checkout / "dist"))
    (made,) = (checkout / "dist").glob("*.tar.gz")
    return made


def test_the_source_distribution_has_all_that_is_compiled_and_no_recording(checkout: Path, source: Path) -> None:
    with tarfile.open(source) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    built_from = {"hostlib", "lab", "switchd", "orchestrator", "gnmi-models"}
    wanted = {
        str(path.relative_to(checkout))
        for folder in built_from
        for pattern in ("*.c", "*.h", "*.cpp", "Makefile", "*.py", "*.yang", "*.txt", "*.html")
        for path in (checkout / folder).rglob(pattern)
    }
    assert len(wanted) > 400
    assert wanted - names == set()
    assert not [name for name in names if name.endswith((".parquet", ".so", ".o"))]
    assert source.stat().st_size < 3_000_000


def test_the_wheel_is_of_this_platform_and_has_no_recording(checkout: Path, tmp_path: Path) -> None:
    make = tmp_path / "make"  # what it builds is not asked for here
    make.write_text(
        "#!/bin/sh\nmkdir -p hostlib/build lab/sim/engine/build\n"
        "touch hostlib/build/libqclimb.so hostlib/build/libqclimb-tls.so hostlib/build/tagger.bpf.o\n"
        "touch lab/sim/engine/build/qclimb-sim\n"
        "for o in hostlib/tagger/*.bpf.c; do touch hostlib/build/$(basename $o .c).o; done\n"
    )
    make.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    run_setup(checkout, "bdist_wheel", "--dist-dir", str(tmp_path), PATH=path)
    (wheel,) = tmp_path.glob("*.whl")
    assert re.fullmatch(r"qclimb-[\d.]+-py3-none-linux_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (told,) = (opened.read(name).decode() for name in names if name.endswith(".dist-info/WHEEL"))
    assert "Root-Is-Purelib: false" in told
    assert "hostlib/build/libqclimb.so" in names
    page = {
        path.relative_to(checkout).as_posix() for path in (checkout / "orchestrator/page").rglob("*") if path.is_file()
    }
    assert len(page) > 10 and page <= set(names)
    assert not [name for name in names if name.endswith(".parquet")]


@pytest.mark.system
def test_a_source_distribution_builds_a_wheel_whose_library_is_loaded(source: Path, tmp_path: Path) -> None:
    place = tmp_path / "installed"
    words = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", str(place)]
    subprocess.run([*words, str(source)], check=True, timeout=1800)
    environment = {**os.environ, "PYTHONPATH": str(place), "QCLIMB_RUN": str(tmp_path / "none")}
    words = [sys.executable, "-m", "hostlib.run", "--log", "stderr", "--", sys.executable, "-c", "import socket"]
    found = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "policy generation=0" in found.stderr


BLOCKED = f"""
import sys
class Nothing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {EXTRAS.split()}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Nothing())
"""


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("qclimb.cli", "figures bigspine-5a --quick", "lab"),
        ("qclimb.cli", "lab record plot {recording} -o plot.png", "lab"),
        ("qclimb.cli", "lab run fct --seeds 1", "lab"),
        ("switchd.cli", "--redis unix:///none --plain-loopback 127.0.0.1:0", ""),
    ],
)
def test_a_command_without_its_extra_says_which_one(tmp_path: Path, module: str, words: str, extra: str) -> None:
    line = words.format(recording=ROOT / "lab/recordings/kv.parquet").split()
    code = f"{BLOCKED}\nimport os; os.geteuid = lambda: 0\nfrom {module} import main\nmain({line!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert (f"qclimb[{extra}]" if extra else "pip install qclimb\n") in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
