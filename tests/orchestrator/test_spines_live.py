"""A link dies under a real switchd: the orchestrator, as a process, leaves its spine out and takes it in again."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.orchestrator.test_fabric import Orchestrator
from tests.switchd.stand import COUNTERS, PLATFORM, Pki, running_daemon, running_redis
from tests.switchd.test_seen import running_orchagent
from tests.switchd.test_steering import Leaf
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")

REVISION = {
    "thresholds": [5000, 500_000],
    "spines": ["s1", "s2"],
    "queues": [6, 5],
    "weights": {"s1": 0.75, "s2": 0.25},
}


@pytest.fixture
def orchestrator(tmp_path: Path, pki: Path) -> Iterator[Orchestrator]:
    started = Orchestrator(tmp_path, pki, more={"--spine-down-s": 0, "--spine-up-s": 0.5}).start()
    yield started
    if started.process.poll() is None:
        started.kill()


@pytest.fixture
def leaf(orchestrator: Orchestrator, pki: Path, tmp_path: Path) -> Iterator[Leaf]:
    with running_redis() as redis:
        redis.load(PLATFORM)
        with running_orchagent(redis) as orchagent:
            found = Leaf(redis, orchagent)
            with running_daemon(redis.url, Pki(pki), tmp_path / "l1.log") as daemon:
                orchestrator.ask("PUT", "/v1/switches/l1", {"address": f"127.0.0.1:{daemon.port}", "role": "leaf"})
                orchestrator.ask("PUT", "/v1/hosts/h1")
                yield found


def policy(one: Orchestrator) -> dict[str, Any]:
    """What h1 is told; it follows it."""
    found = dict(one.ask("GET", "/v1/hosts/h1/policy"))
    one.ask("POST", "/v1/hosts/h1/records", {"policy_generation": found["generation"]})
    return found


@pytest.mark.system
def test_a_link_that_dies_takes_its_spine_out_of_the_policy_and_brings_it_back(orchestrator, leaf):
    one = orchestrator

    def told() -> dict[str, Any]:
        return dict(one.ask("GET", "/v1/spines"))

    wait_until(lambda: set(told()["spines"]) == {"s1", "s2"}, "the leaf's spines are seen")
    refused = one.http.post("/v1/revisions", json={**REVISION, "spines": ["s1", "s9"], "weights": "equal"})
    assert refused.status_code == 409 and "no uplink of switch l1 leads there" in refused.text
    wait_until(lambda: told()["spines"]["s1"]["leaves"]["l1"]["status"] == "up", "s1 is up")
    wait_until(lambda: told()["spines"]["s2"]["leaves"]["l1"]["status"] == "up", "s2 is up")
    made = one.ask("POST", "/v1/revisions", REVISION)
    rollout = one.ended(one.roll_out(made["id"]))
    assert rollout["phase"] == "done", rollout
    assert policy(one)["spines"] == 2
    wait_until(lambda: (leaf.goes(47), leaf.goes(43)) == ({"Ethernet8"}, {"Ethernet12"}), "each by its spine")

    counters = leaf.server.db(COUNTERS)
    for queue, sent, dropped in ((6, 700, 1), (5, 42, 2)):
        counters.hset("COUNTERS_QUEUE_NAME_MAP", f"Ethernet8:{queue}", f"oid:{queue}")
        row = {"SAI_QUEUE_STAT_BYTES": sent, "SAI_QUEUE_STAT_DROPPED_PACKETS": dropped}
        counters.hset(f"COUNTERS:oid:{queue}", mapping=row)
    link = lambda: told()["spines"]["s1"]["leaves"]["l1"]  # noqa: E731
    wait_until(
        lambda: (link()["link_bytes"], link()["link_dropped_packets"]) == (742, 3), "what the link carried is told"
    )

    leaf.link("Ethernet8", False)
    wait_until(lambda: policy(one).get("spines", 0) == 0 and told()["used"] == ["s2"], "s1 is left out")
    assert told()["spines"]["s1"]["down"]
    assert 'qclimb_spine_up{spine="s1",switch="l1"} 0.0' in one.http.get("/metrics").text
    leaf.link("Ethernet8", True)
    wait_until(lambda: policy(one).get("spines", 0) == 2 and told()["used"] == ["s1", "s2"], "s1 is taken in again")
    assert policy(one)["threshold_bytes"] == REVISION["thresholds"]
    wait_until(lambda: (leaf.goes(47), leaf.goes(43)) == ({"Ethernet8"}, {"Ethernet12"}), "each by its spine again")
