"""The core as a shared library, built once a run."""

import subprocess

import pytest

from tests.core.core import HERE, INCLUDE, Core


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> Core:
    library = tmp_path_factory.mktemp("core") / "probe.so"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{INCLUDE}"]
    # Undefined behaviour ends the test run; its runtime is linked in, so that Python can load this.
    flags += ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    subprocess.run(["cc", *flags, "-o", str(library), str(HERE / "probe.c")], check=True)
    return Core(library)
