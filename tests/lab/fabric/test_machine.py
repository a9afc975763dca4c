"""What experiments take of the machine: no root."""

import pytest

from lab.fabric import FabricError, machine


@pytest.mark.parametrize("folder", ["a checkout", "a:checkout"])
def test_a_library_that_the_dynamic_linker_would_pass_over_in_silence_is_refused(tmp_path, monkeypatch, folder):
    path = tmp_path / folder / "libqclimb.so"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setattr(machine, "LIBRARY", path)
    with pytest.raises(FabricError, match="LD_PRELOAD can't name a path with a blank or a colon"):
        machine.library()


def test_a_library_that_is_not_built_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "LIBRARY", tmp_path / "libqclimb.so")
    with pytest.raises(FabricError, match=r"libqclimb\.so is missing; `make -C hostlib` builds it"):
        machine.library()
