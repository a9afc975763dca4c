"""The whole path as the orchestrator walks it: one Set, rows in redis, the generation read back."""

from qclimb.intent import QueueClass, SwitchIntent

from tests.switchd.stand import Daemon, Redis, wait_until


def intent(generation: int, priorities: int = 8) -> SwitchIntent:
    return SwitchIntent(
        generation,
        "enabled",
        tuple(QueueClass(p, 47 - 4 * p, 7 - p, threshold_bytes=1000 * p) for p in range(priorities)),
    )


def test_a_replaced_intent_becomes_rows_and_is_read_back(server: Redis, daemon: Daemon) -> None:
    with daemon.client() as client:
        client.set(replace=[("/qclimb", intent(5).to_gnmi())], encoding="json_ietf")
        got = client.get(path=["/qclimb/state/applied-generation"])
    assert got["notification"][0]["update"][0]["val"] in (5, "5")
    rows = server.rows(
        "QCLIMB", "QCLIMB_CLASS", "PORT_QOS_MAP", "QUEUE", "SCHEDULER", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP"
    )
    assert rows["QCLIMB"]["global"]["generation"] == "5"
    for port in ("Ethernet0", "Ethernet4", "Ethernet8", "Ethernet12"):
        maps = rows["PORT_QOS_MAP"][port]
        tc = rows["DSCP_TO_TC_MAP"][maps["dscp_to_tc_map"]]
        queue = rows["TC_TO_QUEUE_MAP"][maps["tc_to_queue_map"]]
        assert [queue[tc[str(47 - 4 * p)]] for p in range(8)] == [str(7 - p) for p in range(8)]
        assert queue[tc["0"]] == queue[tc["48"]] == "0"
        schedulers = {rows["QUEUE"][f"{port}|{q}"]["scheduler"] for q in range(8)}
        assert [rows["SCHEDULER"][name] for name in schedulers] == [{"type": "STRICT"}]
    wait_until(lambda: server.status().get("applied_generation") == "5", "STATE_DB says generation 5")
