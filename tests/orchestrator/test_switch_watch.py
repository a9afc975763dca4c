"""What `/metrics` tells of switches between rollouts, read from a real switchd."""

import shutil
from pathlib import Path

import pytest
from qclimb.intent import QueueClass, SwitchIntent

from orchestrator.fabric.switches import Fleet
from orchestrator.metrics import Metrics
from orchestrator.store.store import Store
from orchestrator.watch.switches import SwitchWatch
from tests.switchd.stand import CONFIG, PLATFORM, Pki, running_daemon, running_redis

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


def test_metrics_tell_whether_what_switches_applied_is_seen(store: Store, pki: Path, tmp_path: Path) -> None:
    fleet = Fleet(pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem", connect_timeout_s=60)
    metrics = Metrics(store)
    watch = SwitchWatch(store, fleet, metrics, round_s=0)
    with running_redis() as server:
        server.load(PLATFORM)
        server.db(CONFIG).hset("PORT_QOS_MAP|Ethernet4", "pfc_enable", "7")
        with running_daemon(server.url, Pki(pki), tmp_path / "log") as daemon:
            store.put_switch("l1", f"127.0.0.1:{daemon.port}", "leaf", None)
            store.put_switch("l2", "127.0.0.1:1", "leaf", None)
            with fleet.at(store.switches()["l1"]) as door:
                door.apply(SwitchIntent(3, "enabled", (QueueClass(0, 47, 7),)), 60)
            watch.look()
            text = metrics.render().decode()
    assert 'qclimb_switch_seen{switch="l1"} 0.0' in text  # there is no ASIC_DB: written, not verified
    for status, count in (("unverified", 3), ("refused", 1), ("pending", 0), ("applied", 0)):
        assert f'qclimb_switch_ports{{status="{status}",switch="l1"}} {count}.0' in text
    assert 'qclimb_switch_seen{switch="l2"}' not in text
    watch.start()
    watch.close()
