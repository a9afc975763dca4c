"""Whatever the databases hold: the daemon goes on, and gNMI and `show` answer."""

import random
from contextlib import suppress

import click
import pytest
from click.testing import CliRunner
from pygnmi.spec.v080 import gnmi_pb2 as pb

from switchd.apply import Switch
from switchd.db import DatabaseLost
from switchd.db_redis import RedisDatabase
from switchd.gnmi import get, subscribe
from switchd.gnmi.service import Service
from switchd.show import plain
from switchd.show import qclimb as plugin
from tests.switchd.stand import ASIC, CONFIG, COUNTERS, STATE, Redis
from tests.tiers import quick_first

TEXTS = (
    *(b"", b"-1", b"x", b"7", b"3", b"global", b"Ethernet0", b"enabled", b"applied", b"NULL", b"a|b", b"0x7", b"1e9"),
    *(b"9" * 5000, b"18446744073709551616", "٣".encode(), "²".encode(), b"\xff\xfe", b"{", b"oid:0x1", b"a,b"),
    *(b"QCLIMB_D_00000000_0", b"QCLIMB_S_00000000_0", b"balanced", b"true", b"ecn_all", b"STRICT"),
)
FIELDS = (
    *(b"generation", b"admin_state", b"ports@", b"ports", b"dscp", b"queue", b"path", b"share", b"status", b"reason"),
    *(b"applied_generation", b"desired_generation", b"heartbeat", b"verified", b"threshold_bytes", b"pfc_enable"),
    *(b"dscp_to_tc_map", b"tc_to_queue_map", b"scheduler", b"wred_profile", b"type", b"profile", b"dynamic_th", b"0"),
    *(b"SAI_QUEUE_STAT_PACKETS", b"SAI_PORT_ATTR_QOS_DSCP_TO_TC_MAP", b"SAI_QOS_MAP_ATTR_MAP_TO_VALUE_LIST"),
    *(b"SAI_SCHEDULER_GROUP_ATTR_SCHEDULER_PROFILE_ID", b"Ethernet0", b"Ethernet0:7", b"Ethernet0:3", b"ecn"),
)
TABLES = {
    STATE: (b"QCLIMB_STATUS|global", b"QCLIMB_CLASS_STATE|", b"QCLIMB_PORT_STATE|", b"QCLIMB_ASIC_STATE|"),
    CONFIG: (
        *(b"QCLIMB|global", b"QCLIMB_CLASS|", b"QCLIMB_PATH|", b"QCLIMB_PREVIOUS|", b"PORT|", b"PORT_QOS_MAP|"),
        *(b"QUEUE|", b"QUEUE|Ethernet0|", b"DSCP_TO_TC_MAP|", b"TC_TO_QUEUE_MAP|", b"SCHEDULER|", b"WRED_PROFILE|"),
        *(b"BUFFER_QUEUE|Ethernet0|", b"BUFFER_PROFILE|", b"BUFFER_PG|", b"MAP_PFC_PRIORITY_TO_QUEUE|"),
    ),
    COUNTERS: (b"COUNTERS_PORT_NAME_MAP", b"COUNTERS_QUEUE_NAME_MAP", b"COUNTERS:"),
    ASIC: tuple(
        f"ASIC_STATE:SAI_OBJECT_TYPE_{kind}:".encode()
        for kind in ("PORT", "QUEUE", "QOS_MAP", "SCHEDULER", "SCHEDULER_GROUP")
    ),
}
COMMANDS = ([], *([word] for word in ("status", "ports", "asic", "classes", "paths", "counters")))


def scatter(server: Redis, chance: random.Random) -> None:
    """Rows of any content, where ours would stand and beside them; now and then something that is no row."""
    for number, tables in TABLES.items():
        db = server.db(number)
        for _ in range(30):
            table = chance.choice(tables)
            key = table if table[-1:] not in b"|:" else table + chance.choice(TEXTS)
            if chance.random() < 0.02:
                db.set(key, b"x")
            else:
                row = {chance.choice(FIELDS + TEXTS[:6]): chance.choice(TEXTS) for _ in range(chance.randint(1, 6))}
                with suppress(Exception):  # a key that is no hash
                    db.hset(key, mapping=row)  # type: ignore[arg-type]


def ask(switch: Switch) -> None:
    """What a gNMI client can ask of it all."""
    service = Service(switch)
    for encoding in (pb.JSON_IETF, pb.JSON):
        asked = get.checked(service.model, pb.GetRequest(path=[pb.Path()], encoding=encoding))
        moment = service.moment(asked.counted)
        get.answer(service.model, asked, moment.tree, lambda: None).SerializeToString()
    once = pb.SubscriptionList(mode=pb.SubscriptionList.ONCE, subscription=[pb.Subscription(path=pb.Path())])
    once.encoding = pb.JSON_IETF
    wanted = subscribe.checked(service.model, pb.SubscribeRequest(subscribe=once))
    for message in subscribe.initial(service.model, wanted, service.moment(True)):
        pb.SubscribeResponse.FromString(message)


@pytest.mark.parametrize("seed", quick_first(range(12), 4))
def test_junk_in_any_row_ends_nothing(server: Redis, seed: int) -> None:
    chance = random.Random(seed)
    scatter(server, chance)
    if chance.random() < 0.3:
        server.db(STATE).hset("QCLIMB_STATUS|global", "applied_generation", "3")
    db = RedisDatabase(server.url)
    switch = Switch(db)
    for _ in range(3):
        with suppress(DatabaseLost):
            switch.follow()
        with suppress(DatabaseLost):
            switch.look()
        ask(switch)
        show = click.Group("show")
        plugin.register(show)
        for words in COMMANDS:
            for flags in ([], ["--json"] if words else []):
                told = CliRunner().invoke(show, ["qclimb", *words, *flags], obj=plain.PlainDb(server.url))
                assert told.exit_code in (0, 2), (words, told.output, told.exception)
                assert not isinstance(told.exception, Exception), (words, told.exception)
        scatter(server, chance)
    db.close()
