"""A database that somebody else leads, to read from: workers know by it tokens, hosts and the policy in force."""

import logging
import threading
from pathlib import Path
from typing import Any

from qclimb.loops import service_thread
from sqlalchemy import func, select

from ..errors import StoreError
from . import tables
from .copies import read_only_engine
from .off import SETTING, SwitchedOff
from .store import Store

log = logging.getLogger(__name__)

EVERY_S = 0.5
"""From one look for changes to the next: so much later a revoked token is refused, and a policy known."""
SEEN = ("policy", "recording", SETTING)


class Reader(Store):
    """`changes` counts what was seen to change of settings, tokens and hosts; each such change leaves a note."""

    def __init__(self, url: str) -> None:
        """Raises StoreError."""
        self.engine, self.place = read_only_engine(url)
        self.path: Path | None = None
        self.damage = self.unkept = self.off = self.off_unkept = None
        self._heard_s = {}
        self.changes = self.term = 0
        self._behind: Any = _Nothing()
        self._seen: Any = None
        self._ends = threading.Event()
        self.look()
        self._thread = service_thread("reader", self._run)
        self._thread.start()

    def look(self) -> None:
        """Whether anything changed. Raises StoreError."""
        columns = tables.settings.c
        with self.reading() as connection:
            newest = connection.scalar(select(func.max(tables.audit.c.id)))
            found = connection.execute(select(columns.key, columns.value).where(columns.key.in_(SEEN))).all()
        self.off = SwitchedOff.from_json(next((row.value for row in found if row.key == SETTING), None))
        seen = (newest, sorted((row.key, str(row.value)) for row in found))
        if seen != self._seen:
            self._seen = seen
            self.changes += 1

    def close(self) -> None:
        """Looks no more."""
        self._ends.set()
        self._thread.join(timeout=5)
        self.engine.dispose()

    def _run(self) -> None:
        said = ""
        while not self._ends.wait(EVERY_S):
            try:
                self.look()
                said = ""
            except StoreError as error:  # hosts are served what was known
                if str(error) != said:
                    said = str(error)
                    log.warning("reader event=waits reason=%r", said)


class _Nothing:
    """What stands behind a database that is only read."""

    def damage(self, error: BaseException) -> str | None:
        """Its leader tells."""
        return None
