"""Two orchestrators over one PostgreSQL: the leader is killed in the middle of a rollout, and the other finishes it."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.orchestrator.test_fabric import Orchestrator, Stand
from tests.switchd.stand import PLATFORM, Pki, running_daemon, running_redis
from tests.waiting import wait_until


@pytest.fixture
def pair(postgres, tmp_path: Path, pki: Path) -> Iterator[list[Orchestrator]]:
    """The leader, and one that stands by."""
    more = {"--database": postgres.new()}
    started = []
    try:
        for name in ("a", "b"):
            folder = tmp_path / name
            folder.mkdir()
            if started:
                (folder / "token").write_text((started[0].folder / "token").read_text())
            one = Orchestrator(folder, pki, more=more, awaits=" ready " if not started else " event=waits ")
            started.append(one.start())
        yield started
    finally:
        for one in started:
            if one.process.poll() is None:
                one.kill()


@pytest.fixture
def stand(pair, pki, tmp_path) -> Iterator[Stand]:
    """One switch l1 and a host h1, known to the leader."""
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis())
        redis.load(PLATFORM)
        daemon = stack.enter_context(running_daemon(redis.url, Pki(pki), tmp_path / "l1.log"))
        pair[0].ask("PUT", "/v1/switches/l1", {"address": f"127.0.0.1:{daemon.port}", "role": "leaf"})
        pair[0].ask("PUT", "/v1/hosts/h1")
        yield Stand(pair[0], [redis], [daemon])


def test_the_leader_is_killed_in_the_middle_of_a_rollout_and_the_other_finishes_it(pair, stand, postgres):
    leader, other = pair
    refused = other.client().get("/v1/state")
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "2")
    assert "led by another qclimb-orchestrator" in refused.json()["detail"]
    assert [other.client().get(path).status_code for path in ("/healthz", "/ready")] == [204, 503]
    revision = leader.revise()
    os.kill(stand.daemons[0].process.pid, signal.SIGSTOP)
    rollout = leader.roll_out(revision)
    leader.kill()
    os.kill(stand.daemons[0].process.pid, signal.SIGCONT)

    def leads() -> bool:
        try:
            return other.http.get("/ready").status_code == 204
        except httpx.TransportError:
            return False

    wait_until(leads, "the other one leads")
    ended = other.ended(rollout)
    assert ended["phase"] == "done", ended
    assert stand.generation(0) == ended["generation"] == other.ask("GET", "/v1/state")["policy_generation"]
    leader.awaits = " event=waits "
    leader.start()
    assert leader.http.get("/ready").status_code == 503
    other.process.terminate()
    wait_until(lambda: leader.http.get("/ready").status_code == 204, "it leads again")
    assert leader.ask("GET", f"/v1/rollouts/{rollout}")["phase"] == "done"


def test_a_leader_that_is_stopped_is_replaced_and_ends_once_it_runs_again(pair):
    leader, other = pair
    leader.ask("PUT", "/v1/hosts/h1")
    leader.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: other.http.get("/ready").status_code == 204, "the other one leads")
    leader.process.send_signal(signal.SIGCONT)
    assert leader.process.wait(60) == 1
    assert "event=deposed" in leader.log.read_text()
    assert list(other.ask("GET", "/v1/state")["hosts"]) == ["h1"]
