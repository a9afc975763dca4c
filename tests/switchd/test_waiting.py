"""What the one writer may do while it waits, as a table."""

import pytest

from switchd.waiting import Waiting, Why

TABLE = {
    # follows again: once quiet, with old rows once quiet, when a commit is due; is held; is told by the ASIC
    Why.NOTHING: (False, True, True, False, True),
    Why.QUIET: (True, True, True, True, False),
    Why.ROWS: (False, True, True, True, False),
    Why.REFUSED: (False, True, True, False, False),
    Why.NEWER: (False, False, False, False, False),
    Why.LEFT: (False, False, False, False, False),
}


@pytest.mark.parametrize("why", Why)
def test_what_is_waited_for_says_what_may_be_done_meanwhile(why: Why) -> None:
    now, with_old = Waiting(why), Waiting(why, has_old=True)
    assert (
        now.follows(is_quiet=True, is_due=False),
        with_old.follows(is_quiet=True, is_due=False),
        now.follows(is_quiet=False, is_due=True),
        now.is_held,
        now.is_told_by_the_asic,
    ) == TABLE[why]
    assert not with_old.follows(is_quiet=False, is_due=False)
