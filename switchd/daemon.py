"""The loop: rows changed, or tables dropped (`config qos clear`), or redis came back -> follow the rows again."""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from switchd.apply import Switch
from switchd.configuration import WATCHED_TABLES
from switchd.db import Database, DatabaseLost, Watch
from switchd.holder import BEAT_S

log = logging.getLogger("switchd")

POLL_S = 0.5
"""how often the loop looks whether it should end"""
MIN_POLL_S = 0.02
SETTLE_S = 0.03
"""quiet time after a change, so that a writer of many rows (SONiC's patcher, `config qos reload`) is seen whole"""
MAX_SETTLE_S = 1.0
REFRESH_S = 30.0
"""plan again without a cause, against lost notifications"""
RETRY_S = (0.1, 2.0)
"""first and longest pause before the next try to reach redis"""


def run(switch: Switch, db: Database, stop: threading.Event, at_each_beat: Sequence[Callable[[], object]] = ()) -> None:
    """Follow the rows until `stop` is set."""
    pause_s = RETRY_S[0]
    while not stop.is_set():
        try:
            with db.watch(WATCHED_TABLES) as watch:
                watch.poll(0)  # the subscription stands from here; `follow` reads all rows anyway
                switch.follow()
                log.info("following redis=ok")
                pause_s = RETRY_S[0]
                follow_changes(switch, watch, stop, at_each_beat)
        except DatabaseLost as error:  # or another daemon writes
            if switch.snapshot.status.last_error != str(error):
                log.warning("lost error=%r", str(error))
            switch.lost(error)
            stop.wait(pause_s)
            pause_s = min(2 * pause_s, RETRY_S[1])


def follow_changes(
    switch: Switch, watch: Watch, stop: threading.Event, at_each_beat: Sequence[Callable[[], object]] = ()
) -> None:
    """Until `stop`, or DatabaseLost. Whoever fights over our rows is answered ever more slowly, not in a hot loop."""
    fights, idle_s, beat_at = 0, 0.0, time.monotonic()
    while not stop.is_set():
        if time.monotonic() >= beat_at:
            for act in (*at_each_beat, switch.beat):
                act()
            beat_at = time.monotonic() + BEAT_S
        pause_s = min(POLL_S, max(switch.look(), MIN_POLL_S))
        if heard(switch, watch, pause_s):
            settle(switch, watch, stop)
            idle_s = 0.0
        elif (idle_s := idle_s + pause_s) < REFRESH_S:
            fights = 0
            continue
        else:
            idle_s = 0.0
        if switch.follow():
            stop.wait(min(SETTLE_S * 2**fights, 5.0))
            fights = min(fights + 1, 10)


def settle(switch: Switch, watch: Watch, stop: threading.Event) -> None:
    """Drain changes until none comes for SETTLE_S, but not for ever."""
    waited_s = 0.0
    while heard(switch, watch, SETTLE_S) and waited_s < MAX_SETTLE_S and not stop.is_set():
        waited_s += SETTLE_S


def heard(switch: Switch, watch: Watch, timeout_s: float) -> bool:
    """Whether rows that matter changed; whoever changes others may be patching all of CONFIG_DB."""
    changes = watch.poll(timeout_s)
    switch.touched({(one.table, one.key) for one in changes})
    if watch.has_others:
        switch.quiet.disturbed()
    return bool(changes)
