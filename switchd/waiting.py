"""Why the one writer does not write now, and so what it may do meanwhile; purely."""

from dataclasses import dataclass
from enum import Enum, auto


class Why(Enum):
    """NOTHING: the rows are written, and the ASIC is asked what became of them."""

    NOTHING = auto()
    QUIET = auto()
    """others may be patching CONFIG_DB"""
    ROWS = auto()
    """the rest of an intent is still to come"""
    REFUSED = auto()
    """this intent can't be applied"""
    NEWER = auto()
    """rows of a newer qclimb have to change first: nothing may be written, not even to undo a commit"""
    LEFT = auto()
    """this daemon ends"""


@dataclass(frozen=True)
class Waiting:
    """has_old: rows of an earlier version are to be rewritten once it is quiet, whatever else is waited for."""

    why: Why = Why.NOTHING
    has_old: bool = False

    def follows(self, is_quiet: bool, is_due: bool) -> bool:
        """Whether rows that nobody changed are to be looked at again.

        is_due  a commit is to be undone now
        """
        if self.why in (Why.NEWER, Why.LEFT):
            return False
        return is_due or (is_quiet and (self.has_old or self.why is Why.QUIET))

    @property
    def is_held(self) -> bool:
        """Whether an intent waits to be written; redirects, which stand in APPL_DB, follow the network all the same."""
        return self.why in (Why.QUIET, Why.ROWS)

    @property
    def is_kept(self) -> bool:
        """Whether what stands is to stay, of whatever intent it is."""
        return self.is_held or self.why is Why.REFUSED

    @property
    def is_told_by_the_asic(self) -> bool:
        """Whether the status is what the ASIC has; else it stays what was told of the rows."""
        return self.why is Why.NOTHING
