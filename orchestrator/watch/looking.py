"""A thread that looks every so often, and goes on whatever a look meets."""

import logging
import threading

from qclimb.errors import QclimbError
from qclimb.loops import service_thread

from ..errors import ConflictError

log = logging.getLogger(__name__)


class Looking:
    """`look` every `every_s`. What it raises is logged under `name`."""

    name = ""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> object:
        """One look. May raise anything."""
        raise NotImplementedError

    def wait_s(self) -> float:
        """How long until the next look."""
        return self.every_s

    def start(self) -> None:
        """Looks every so often from now on."""
        self._thread = service_thread(self.name, self._run)
        self._thread.start()

    def close(self) -> None:
        """Ends with the look that is under way."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._ends.wait(self.wait_s()):
            try:
                self.look()
            except ConflictError as error:  # somebody trains or rolls out: the next look will do
                log.info("%s event=waits reason=%r", self.name, str(error))
            except QclimbError as error:
                log.warning("%s event=failed reason=%r", self.name, str(error))
            except Exception:
                log.exception("%s event=failed", self.name)
