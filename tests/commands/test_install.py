"""`make install`: ld.so, compilers and pkg-config find what it laid down."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None or shutil.which("cc") is None, reason="no make, no cc")


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix into which everything was installed, as for a package: the place is told apart from the prefix."""
    root = tmp_path_factory.mktemp("root")
    built = "build/libqclimb.so"
    if not (ROOT / "hostlib" / built).is_file():
        pytest.skip("libqclimb.so is not built: make -C hostlib")
    # -o: as it is, for other tests may use it now.
    words = ["make", "-s", "-C", str(ROOT / "hostlib"), "-o", built, "install", f"DESTDIR={root}", "PREFIX=/usr"]
    subprocess.run(words, check=True, timeout=600)
    return root / "usr"


def test_the_library_is_loaded_by_its_name_alone(prefix: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(prefix / "lib"),
        "LD_PRELOAD": "libqclimb.so",
        "QCLIMB_LOG": "stderr",
        "QCLIMB_RUN": str(tmp_path / "none"),
    }
    program = "import socket; socket.socket()"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "policy generation=0 mode=pias" in done.stderr
    assert "ERROR" not in done.stderr  # ld.so's own word for a library that it can't find


def test_ldconfig_lists_the_library(prefix: Path, tmp_path: Path) -> None:
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    if not Path(ldconfig).exists():
        pytest.skip("no ldconfig")
    (tmp_path / "conf").write_text(f"{prefix / 'lib'}\n")
    cache = ["-C", str(tmp_path / "cache")]
    subprocess.run([ldconfig, *cache, "-X", "-f", str(tmp_path / "conf")], check=True, timeout=60)
    listed = subprocess.run([ldconfig, *cache, "-p"], capture_output=True, text=True, timeout=60, check=True)
    assert str(prefix / "lib" / "libqclimb.so") in listed.stdout


def test_a_program_is_built_with_what_pkg_config_says(prefix: Path, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config")
    environment = {
        **os.environ,
        "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig"),
        "PKG_CONFIG_SYSROOT_DIR": str(prefix.parent),
        "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
    }
    asked = ["pkg-config", "--cflags", "--libs", "qclimb"]
    flags = subprocess.run(
        asked, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    source = tmp_path / "told.c"
    source.write_text("#include <qclimb.h>\nint main(void) { return qclimb_flow_end(0); }\n")
    subprocess.run(["cc", *flags, "-o", str(tmp_path / "told"), str(source)], check=True, timeout=60)
    assert subprocess.run([str(tmp_path / "told")], timeout=60, check=False).returncode == 0
