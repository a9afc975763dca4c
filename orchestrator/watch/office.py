"""Whether this process still leads its database; where it does not, it has to begin anew."""

import logging
from collections.abc import Callable

from ..errors import DeposedError, StoreError
from ..store.store import Store
from .looking import Looking

log = logging.getLogger(__name__)

EVERY_S = 1.0


class OfficeWatch(Looking):
    """`deposed` is called once."""

    name = "office"

    def __init__(self, store: Store, deposed: Callable[[], None], every_s: float = EVERY_S) -> None:
        super().__init__(every_s)
        self.store, self.is_deposed = store, False
        self._deposed = deposed
        self._said: str | None = None

    def look(self) -> None:
        """One small transaction; where the database is away, it is waited for."""
        if self.is_deposed:
            return
        try:
            self.store.check_office()
            self._said = None
        except DeposedError as error:
            self.is_deposed = True
            log.error("office event=deposed reason=%r; begins anew", str(error))
            self._deposed()
        except StoreError as error:
            if str(error) != self._said:
                self._said = str(error)
                log.warning("office event=waits reason=%r", self._said)
