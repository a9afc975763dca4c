"""Files that are whole at every moment."""

import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostlib.hostd.errors import PlaceError
from hostlib.hostd.place import Place, is_same, write_whole

WRITER = """
import sys
from pathlib import Path
from hostlib.hostd.place import write_whole
path, turn = Path(sys.argv[1]), 0
while True:
    turn += 1
    write_whole(path, bytes([turn % 256]) * 300_000)
"""


def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    write_whole(path, b"\0" * 300_000)
    chance = random.Random(1)
    for _ in range(8):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        try:
            deadline, contents = time.monotonic() + 60, set[bytes]()
            while len(contents) < chance.randrange(3, 9):
                assert time.monotonic() < deadline
                content = path.read_bytes()
                assert content == content[:1] * 300_000
                contents.add(content[:1])
        finally:
            writer.send_signal(signal.SIGKILL)
            writer.wait()
        content = path.read_bytes()
        assert content == content[:1] * 300_000
    assert {found.name for found in tmp_path.iterdir()} <= {"policy", ".policy.new"}


def test_a_file_is_readable_by_all_and_writable_by_its_owner_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_whole(tmp_path / "policy", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "policy").stat().st_mode) == 0o644


def test_what_is_in_the_way_is_neither_followed_nor_kept(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / ".policy.new").symlink_to(victim)
    write_whole(tmp_path / "policy", b"x")
    assert victim.read_text() == "untouched"
    assert (tmp_path / "policy").read_bytes() == b"x"


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    with pytest.raises(PlaceError, match="kept what was there"):
        write_whole(tmp_path / "policy", b"x")
    assert (tmp_path / "policy").is_dir()


def test_a_file_is_known_again_until_somebody_else_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "policy"
    identity = write_whole(path, b"x")
    assert is_same(path, identity)
    write_whole(path, b"x")
    assert not is_same(path, identity)
    path.unlink()
    assert not is_same(path, identity)
    assert not is_same(path, None)


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_a_directory_that_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(PlaceError, match="expected 0755"):
        Place(folder).prepare()


def test_a_directory_is_made_and_a_file_in_its_place_refused(tmp_path: Path) -> None:
    Place(tmp_path / "a" / "run").prepare()
    assert stat.S_IMODE((tmp_path / "a" / "run").stat().st_mode) == 0o755
    (tmp_path / "file").touch()
    with pytest.raises(PlaceError, match="expected a directory"):
        Place(tmp_path / "file").prepare()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory to another user needs root")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(PlaceError, match="belongs to user 65534"):
        Place(tmp_path).prepare()


def test_only_one_holds_the_lock_and_it_ends_with_its_holder(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert place.is_served() is False
    lock = place.take()
    assert place.is_served() is True
    with pytest.raises(PlaceError, match="another qclimb-hostd"):
        place.take()
    os.close(lock)
    assert place.is_served() is False
    os.close(place.take())
