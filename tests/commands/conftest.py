"""What the packages' tests have together; each of both takes minutes to make."""

from pathlib import Path

import pytest

from tests.commands import debian


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the Debian packages of this checkout."""
    place = tmp_path_factory.mktemp("deb")
    debian.run(debian.ROOT / "packaging/build-deb", place)
    return place


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Debian with systemd and what the packages need of it, which nobody changes."""
    place = tmp_path_factory.mktemp("clean") / "root"
    debian.make_root(place)
    return place
