"""Who was refused (401, 403), in the audit log: counted, and written now and then, so that refusals fill no disk."""

import asyncio
import logging
from collections import Counter

from qclimb.text import printable

from ..errors import StoreError
from ..store.store import Store

log = logging.getLogger(__name__)

EVERY_S = 60.0
"""From one writing to the next; a refusal after a quiet time is written at once."""
KINDS = 32
"""Of refusals that are told apart in between; further ones are counted together."""
LONGEST = 120


class Refusals:
    """Counts on the event loop, writes in a thread."""

    def __init__(self, store: Store, every_s: float = EVERY_S) -> None:
        self._store, self._every_s = store, every_s
        self._counted: Counter[tuple[str, int, str]] = Counter()
        self._task: asyncio.Task[None] | None = None

    def came(self, actor: str, status: int, asked: str) -> None:
        """One was refused: `actor` is a token's name, or an address; `asked` a method and a path."""
        kind = (_kept(actor), status, _kept(asked))
        if kind not in self._counted and len(self._counted) >= KINDS:
            kind = ("others", status, "")
        self._counted[kind] += 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write_all())

    def close(self) -> None:
        """Writes what is left."""
        self._write()

    async def _write_all(self) -> None:
        while self._counted:
            await asyncio.to_thread(self._write)
            await asyncio.sleep(self._every_s)

    def _write(self) -> None:
        counted, self._counted = self._counted, Counter()
        try:
            with self._store.writing(cached=False):
                for (actor, status, asked), count in counted.items():
                    self._store.note(actor, f"refused-{status}", f"{asked}, {count} times" if count > 1 else asked)
                    log.warning("refused actor=%r status=%d asked=%r count=%d", actor, status, asked, count)
        except StoreError as error:
            log.error("refused count=%d event=unstored reason=%r", counted.total(), str(error))
        except Exception:  # no refusal may end the writing of later ones, or what comes after it at the end
            log.exception("refused count=%d event=unstored", counted.total())


def _kept(said: str) -> str:
    """Not too long, and without what can't be kept or printed."""
    return printable(said[:LONGEST])
