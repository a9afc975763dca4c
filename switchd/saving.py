"""`config save` after a change that came by our door, so that `config reload` keeps it.

SONiC's own gNMI server does the same where `GNMI|gnmi save_on_set` says so; that row counts here, too. The host runs
the command: it offers that by D-Bus (sonic-host-services, host_modules/config_engine.py), whose socket the container
has. All of CONFIG_DB is saved, what others have not saved either.
"""

import logging
import threading

from switchd.apply import Switch
from switchd.status import PENDING

log = logging.getLogger("switchd")

HOST = "org.SONiC.HostService.config"
"""its name on the bus, and its interface; the object's path is the same with slashes"""
TIMEOUT_S = 120.0
COMMIT_TABLE = "QCLIMB_COMMIT"
"""has a row while a client may still take its change back"""


class Saver:
    """`bus`: SYSTEM, or an address of a D-Bus."""

    def __init__(self, switch: Switch, bus: str = "SYSTEM") -> None:
        self._switch, self._bus = switch, bus
        self._seen = switch.edits
        self._running: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it is being saved."""
        return self._running is not None and self._running.is_alive()

    def beat(self) -> None:
        """Save what was changed by our door, once the ASIC has it and it is confirmed. Raises DatabaseLost."""
        edits = self._switch.edits
        if edits == self._seen or self.is_busy:
            return
        if self._switch.host.get_entry("GNMI", "gnmi").get("save_on_set", "").lower() == "true":
            if self._switch.snapshot.status.verified == PENDING or self._switch.db.get_table(COMMIT_TABLE):
                return
            self._running = threading.Thread(target=self._save, name="config save", daemon=True)
            self._running.start()
        self._seen = edits

    def _save(self) -> None:
        try:
            from jeepney import DBusAddress, MessageType, new_method_call  # only where it is asked for
            from jeepney.io.blocking import open_dbus_connection

            host = DBusAddress("/" + HOST.replace(".", "/"), bus_name=HOST, interface=HOST)
            with open_dbus_connection(self._bus) as bus:
                answer = bus.send_and_get_reply(new_method_call(host, "save", "s", ("",)), timeout=TIMEOUT_S)
        except (ImportError, OSError, TimeoutError) as error:
            log.warning("save error=%r", f"D-Bus {self._bus}: {error}")
            return
        if answer.header.message_type is MessageType.error:
            log.warning("save error=%r", " ".join(map(str, answer.body)))
        elif answer.body[0]:
            log.warning("save status=%d error=%r", *answer.body)
        else:
            log.info("saved")
