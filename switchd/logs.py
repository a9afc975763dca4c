"""Where log lines go, and from which level: SONiC's syslog and its row LOGGER|qclimb-switchd where they are.

In a container of SONiC that is /dev/log, in the form of its other daemons (sonic_py_common, syslogger); elsewhere, and
for each line that nobody takes there, stderr. `config syslog level` and swssloglevel change the row, and the daemon
looks at it at each heartbeat.
"""

import logging
import sys

from qclimb.text import PrintableLines

from switchd.db import Database

NAME = "qclimb-switchd"
LEVELS = {
    **{"EMERG": logging.CRITICAL, "ALERT": logging.CRITICAL, "CRIT": logging.CRITICAL, "ERROR": logging.ERROR},
    **{"WARN": logging.WARNING, "NOTICE": logging.INFO, "INFO": logging.INFO, "DEBUG": logging.DEBUG},
}
"""swss-common's words (sonic-logger.yang); what changes on the switch is an INFO here and a NOTICE there"""


def configure(level: str) -> None:
    """Send all log lines where they belong; `level` is one of logging's words."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableLines("%(asctime)s %(levelname)s %(name)s %(message)s"))
    try:
        from sonic_py_common.syslogger import SysLogger

        stderr, (handler,) = handler, SysLogger(NAME).logger.handlers  # opens /dev/log
        handler.setFormatter(PrintableLines(f"{NAME}[%(process)d]: %(levelname)s %(name)s %(message)s"))
        handler.handleError = stderr.handle  # type: ignore[assignment, method-assign]
    except (ImportError, OSError):
        pass  # not a switch
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Level:
    """The level that LOGGER|qclimb-switchd asks for; `given` where it has none or no known one."""

    def __init__(self, given: str) -> None:
        self._given = logging.getLevelNamesMapping()[given.upper()]

    def follow(self, db: Database) -> None:
        """Take the row's level. Raises DatabaseLost."""
        word = db.get_entry("LOGGER", NAME).get("LOGLEVEL", "")
        level = LEVELS.get(word, self._given)
        root = logging.getLogger()
        if root.level != level:
            root.setLevel(level)
            logging.getLogger("switchd").warning("log level=%s", logging.getLevelName(level))
