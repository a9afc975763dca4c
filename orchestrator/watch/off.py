"""Has the database know that hosts are switched off, where it could not be written when they were."""

from ..store.store import Store
from .looking import Looking

EVERY_S = 1.0


class OffKeeper(Looking):
    """Tries until it is kept."""

    name = "off"

    def __init__(self, store: Store, every_s: float = EVERY_S) -> None:
        super().__init__(every_s)
        self.store = store

    def look(self) -> None:
        """One try, where there is need of it."""
        self.store.keep_off()
