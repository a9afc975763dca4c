"""Histories over a real redis: the daemon is killed at any moment, orchagent and redis begin anew; the ASIC is right.

The pure histories (`test_histories.py`) end the daemon between two transactions; the kernel ends it anywhere.
"""

import random
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.switchd.stand import PLATFORM, STATE, Pki, Redis, running_daemon, wait_until
from tests.switchd.test_seen import intent, queue_in_asic, running_orchagent, seen

EVENTS = ("intent", "intent", "kill", "kill", "orchagent", "redis", "redis without its data", "clear", "state")
QUEUES = ((7, 6), (7, 5), (6, 2), (7, 6, 5))


class History:
    """A switch whose services come and go."""

    def __init__(self, server: Redis, pki: Pki, log: Path, chance: random.Random) -> None:
        self.server, self.pki, self.log, self.chance = server, pki, log, chance
        self.generation, self.queues = 2, QUEUES[0]
        self.orchagent, self.daemon = ExitStack(), ExitStack()
        self.want()
        self.begin_orchagent()
        self.begin_daemon()

    def want(self) -> None:
        self.generation, self.queues = self.generation + 1, self.chance.choice(QUEUES)
        self.server.drop("QCLIMB_CLASS")
        self.server.load(intent(self.generation, *self.queues).to_config_db())

    def begin_orchagent(self) -> None:
        self.orchagent.enter_context(running_orchagent(self.server))

    def begin_daemon(self) -> None:
        self.process = self.daemon.enter_context(running_daemon(self.server.url, self.pki, self.log)).process

    def kill(self) -> None:
        self.process.kill()
        self.daemon.close()
        self.begin_daemon()

    def happens(self, what: str) -> None:
        time.sleep(self.chance.choice((0, 0.02, 0.1, 0.4)))  # so far the daemon comes, more or less
        if what == "intent":
            self.want()
        elif what == "kill":
            self.kill()
        elif what == "orchagent":
            self.orchagent.close()
            self.begin_orchagent()
        elif what == "clear":
            self.server.drop("QUEUE", "SCHEDULER", "PORT_QOS_MAP", "DSCP_TO_TC_MAP")
        elif what == "state":
            self.server.db(STATE).flushdb()
        else:
            self.orchagent.close()  # it ends with its redis
            self.server.kill()
            if "without" in what:
                shutil.rmtree(self.server.directory / "appendonlydir")
            self.server.start()
            if "without" in what:
                self.server.load(PLATFORM | intent(self.generation, *self.queues).to_config_db())
            self.begin_orchagent()

    def is_right(self) -> bool:
        return all(
            [queue_in_asic(self.server, port, 47 - 4 * n) for n in range(len(self.queues))] == list(self.queues)
            for port in PLATFORM["PORT"]
        )

    def close(self) -> None:
        self.daemon.close()
        self.orchagent.close()


@pytest.mark.parametrize("seed", range(4))
def test_whatever_begins_anew_the_asic_is_right_in_the_end(server: Redis, pki: Pki, tmp_path: Path, seed: int) -> None:
    history = History(server, pki, tmp_path / "log", random.Random(seed))
    told = []
    try:
        for _ in range(7):
            told.append(history.chance.choice(EVENTS))
            history.happens(told[-1])
        wait_until(history.is_right, f"the ASIC is right after {told}")
        seen(server, history.generation)
        assert history.is_right(), told
    finally:
        history.close()
