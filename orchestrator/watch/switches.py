"""What switches say of themselves between rollouts: whether what they were told is seen in the ASIC, port by port.

One switch after the other, in a thread of its own. Nothing is decided by it: it is for `/metrics`.
"""

import logging
import threading

from ..errors import FleetError, StoreError
from ..fabric.switches import Fleet
from ..metrics import Metrics
from ..store.store import Store

log = logging.getLogger(__name__)

ROUND_S = 60.0
"""from one look at a switch to the next; with more than 200 switches longer, as each look is two TLS handshakes"""
GAP_S = 0.3
"""least time from one switch to the next"""


class SwitchWatch:
    """Reads each switch's state now and then."""

    def __init__(self, store: Store, fleet: Fleet, metrics: Metrics, round_s: float = ROUND_S) -> None:
        self._store, self._fleet, self._metrics, self._round_s = store, fleet, metrics, round_s
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="switch-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End after the look that is under way."""
        self._ends.set()
        self._thread.join(timeout=5)

    def look(self) -> None:
        """One round."""
        switches = self._store.switches()
        for name, switch in switches.items():
            try:
                self._metrics.switch_told(name, self._fleet.told(switch))
            except FleetError as error:
                log.debug("switch name=%s event=unread reason=%r", name, str(error))
                self._metrics.switch_told(name, None)
            if self._ends.wait(max(self._round_s / len(switches), GAP_S)):
                return

    def _run(self) -> None:
        while not self._ends.is_set():
            try:
                self.look()
            except StoreError as error:
                log.warning("switch-watch event=no-store reason=%r", str(error))
            self._ends.wait(GAP_S if self._round_s < 1 else 1.0)
