"""Threads that a service can't do without: one that ends by an error ends the process.

Who keeps services running (systemd, Kubernetes) starts it anew. A process that looks alive and does half of its work
would be noticed by nobody.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

EXIT_STATUS = 70
"""EX_SOFTWARE of sysexits.h"""


def service_thread(
    name: str, target: Callable[..., object], *arguments: object, end: Callable[[int], object] = os._exit
) -> threading.Thread:
    """A daemon thread, not yet started, whose uncaught exception is logged and ends the process with EXIT_STATUS."""

    def run() -> None:
        try:
            target(*arguments)
        except BaseException:
            if sys.is_finalizing():
                return
            log.critical("thread=%s event=died; the process ends with it", name, exc_info=True)
            logging.shutdown()
            end(EXIT_STATUS)

    return threading.Thread(target=run, name=name, daemon=True)
