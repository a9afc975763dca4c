"""The first admin's token: whatever cuts a first start, somebody gets in with it, and nobody with another."""

import errno

import pytest

from orchestrator.errors import StoreError
from orchestrator.rest import tokens
from orchestrator.rest.tokens import Role


@pytest.mark.parametrize("fails", ["add_token", "fsync", "rename"])
def test_a_first_start_that_is_cut_is_simply_made_again(store, tmp_path, monkeypatch, fails):
    """An error stands for a kill at the same place, too: there is no first token before both have it."""
    file = tmp_path / "token"
    place = {"add_token": store, "fsync": tokens.os, "rename": type(file)}[fails]
    with monkeypatch.context() as broken:
        broken.setattr(place, fails, lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(StoreError, match="No space left on device, expected a place for the first admin token"):
            tokens.bootstrap(store, file)
    assert [found.name for found in tmp_path.iterdir() if "token" in found.name] == []
    (tmp_path / ".token.new").write_text("what a kill left")
    assert tokens.bootstrap(store, file)
    assert (file.stat().st_mode & 0o777, (tmp_path / ".token.new").exists()) == (0o600, False)
    found = tokens.identify(store, f"Bearer {file.read_text().strip()}")
    assert found is not None
    assert found.role is Role.ADMIN
    assert not tokens.bootstrap(store, file)


def test_a_first_start_that_was_killed_once_the_store_had_the_token_is_finished(store, tmp_path):
    file = tmp_path / "token"
    assert tokens.bootstrap(store, file)
    file.rename(tmp_path / ".token.new")  # as if killed before the last step
    assert not tokens.bootstrap(store, file)
    assert tokens.identify(store, f"Bearer {file.read_text().strip()}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.ADMIN]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_first_start_whose_database_gave_no_answer_is_made_again_whether_or_not_it_has_the_token(
    store, tmp_path, monkeypatch, is_kept
):
    file, add = tmp_path / "token", store.add_token

    def cut(*values):
        if is_kept:
            add(*values)
        raise StoreError("the connection is lost")

    with monkeypatch.context() as broken:
        broken.setattr(store, "add_token", cut)
        with pytest.raises(StoreError, match="the connection is lost"):
            tokens.bootstrap(store, file)
    assert tokens.bootstrap(store, file) is not is_kept
    assert tokens.identify(store, f"Bearer {file.read_text().strip()}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.ADMIN]
    assert not (tmp_path / ".token.new").exists()


def test_a_first_token_that_gets_no_file_takes_no_other_of_its_name_along(store, tmp_path, monkeypatch):
    theirs = tokens.issue(store, "bootstrap", Role.VIEWER)
    with monkeypatch.context() as broken:
        broken.setattr(type(tmp_path), "rename", lambda *_: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
        with pytest.raises(StoreError, match="I/O error"):
            tokens.bootstrap(store, tmp_path / "token")
    assert tokens.identify(store, f"Bearer {theirs}") is not None
    assert [each.role for each in store.tokens(0)] == [Role.VIEWER]
