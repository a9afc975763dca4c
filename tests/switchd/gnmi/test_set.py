"""Set by the gNMI door: a table of good requests and what they store."""

from collections.abc import Callable
from typing import Any

import pytest
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.gnmi_ext import union_replace_of
from qclimb.intent import SwitchIntent

from tests.switchd.gnmi.client import (
    BASE,
    give,
    ietf,
    intent,
    stored,
    union_replace,
    update,
)
from tests.switchd.stand import Redis

GOOD: dict[str, tuple[pb.SetRequest, Callable[[SwitchIntent], Any], Any]] = {
    "nothing at all": (pb.SetRequest(), lambda i: i, BASE),
    "one leaf by JSON": (
        pb.SetRequest(update=[update("/qclimb/config/generation", ietf("9"))]),
        lambda i: i.generation,
        9,
    ),
    "uint64 as a number": (
        pb.SetRequest(update=[update("/qclimb/config/generation", ietf(9))]),
        lambda i: i.generation,
        9,
    ),
    "a scalar": (
        pb.SetRequest(update=[update("/qclimb/config/generation", pb.TypedValue(uint_val=2**64 - 1))]),
        lambda i: i.generation,
        2**64 - 1,
    ),
    "a share in single precision": (
        pb.SetRequest(
            update=[update("/qclimb/classes/class[priority=0]/config/max-share", pb.TypedValue(float_val=0.1))]
        ),
        lambda i: i.classes[0].max_share,
        0.1,
    ),
    "a share of a hundred-thousandth": (
        pb.SetRequest(update=[update("/qclimb/classes/class[priority=0]/config/max-share", ietf(0.00001))]),
        lambda i: i.classes[0].max_share,
        0.00001,
    ),
    "a share in nine digits": (
        pb.SetRequest(update=[update("/qclimb/classes/class[priority=0]/config/max-share", ietf("0.1234567890"))]),
        lambda i: i.classes[0].max_share,
        0.123456789,
    ),
    "a leaf-list of scalars": (
        pb.SetRequest(
            update=[
                update(
                    "/qclimb/config/ports",
                    pb.TypedValue(leaflist_val=pb.ScalarArray(element=[pb.TypedValue(string_val="Ethernet4")])),
                )
            ]
        ),
        lambda i: i.ports,
        ("Ethernet4",),
    ),
    "plain JSON without prefixes": (
        pb.SetRequest(
            update=[update("/qclimb/config", pb.TypedValue(json_val=b'{"generation":9,"ports":["Ethernet8"]}'))]
        ),
        lambda i: (i.generation, i.ports, i.classes),
        (9, ("Ethernet8",), BASE.classes),
    ),
    "a module prefix in path and value": (
        pb.SetRequest(update=[update("/qclimb:qclimb/qclimb:config", ietf({"qclimb:generation": 9}))]),
        lambda i: i.generation,
        9,
    ),
    "the container inside the value": (
        pb.SetRequest(replace=[update("/qclimb", ietf(intent(9, 4).to_gnmi()))]),
        lambda i: i,
        intent(9, 4),
    ),
    "an origin and a prefix": (
        pb.SetRequest(
            prefix=pb.Path(origin="rfc7951", target="l1", elem=path("/qclimb/config").elem),
            update=[update("generation", ietf(9))],
        ),
        lambda i: i.generation,
        9,
    ),
    "element beside elem": (
        pb.SetRequest(
            update=[pb.Update(path=pb.Path(element=["x"], elem=path("/qclimb/config/generation").elem), val=ietf(9))]
        ),
        lambda i: i.generation,
        9,
    ),
    "an update merges, also into a list entry": (
        pb.SetRequest(update=[update("/qclimb/classes/class[priority=2]/config", ietf({"queue": 1}))]),
        lambda i: [(c.dscp, c.queue) for c in i.classes],
        [(47, 7), (43, 6), (39, 1)],
    ),
    "a new entry's key leaves are filled in": (
        pb.SetRequest(update=[update("/qclimb/classes/class[priority=3]/config", ietf({"dscp": 10, "queue": 2}))]),
        lambda i: [(c.priority, c.dscp, c.queue) for c in i.classes[3:]],
        [(3, 10, 2)],
    ),
    "delete goes before replace, replace before update": (
        pb.SetRequest(
            delete=[path("/qclimb/classes/class[priority=*]")],
            replace=[update("/qclimb/classes/class[priority=0]", ietf({"config": {"dscp": 1, "queue": 7}}))],
            update=[update("/qclimb/classes/class[priority=0]/config/dscp", ietf(2))],
        ),
        lambda i: [(c.dscp, c.queue) for c in i.classes],
        [(2, 7)],
    ),
    "duplicates in order": (
        pb.SetRequest(
            update=[update("/qclimb/config/generation", ietf(8)), update("/qclimb/config/generation", ietf(9))]
        ),
        lambda i: i.generation,
        9,
    ),
    "a replace reverts what it does not mention": (
        pb.SetRequest(
            replace=[update("/qclimb/config", ietf({"generation": 9})), update("/qclimb/classes", ietf({}))],
        ),
        lambda i: (i.admin_state, i.ports, i.classes),
        ("disabled", (), ()),
    ),
    "an empty object in place of all": (
        pb.SetRequest(
            replace=[update("/qclimb/classes", ietf({})), update("/qclimb/paths", ietf({}))],
            update=[update("/qclimb/config/admin-state", ietf("disabled"))],
        ),
        lambda i: (i.generation, i.classes),
        (1, ()),
    ),
    "a list as a whole is replaced by its entries": (
        pb.SetRequest(
            replace=[update("/qclimb/classes/class", ietf([{"priority": 0, "config": {"dscp": 9, "queue": 7}}]))],
        ),
        lambda i: [(c.dscp, c.queue) for c in i.classes],
        [(9, 7)],
    ),
    "an update of a list as a whole merges": (
        pb.SetRequest(
            update=[
                update(
                    "/qclimb/classes/class",
                    ietf([{"priority": 3, "config": {"dscp": 9, "queue": 2}}, {"priority": 0, "config": {"dscp": 10}}]),
                )
            ],
        ),
        lambda i: [(c.dscp, c.queue) for c in i.classes],
        [(10, 7), (43, 6), (39, 5), (9, 2)],
    ),
    "a key with a leading zero": (
        pb.SetRequest(update=[update("/qclimb/classes/class[priority=01]/config/dscp", ietf(9))]),
        lambda i: [c.dscp for c in i.classes],
        [47, 9, 39],
    ),
    "a key with a leading zero in path and value": (
        pb.SetRequest(
            replace=[
                update(
                    "/qclimb/classes/class[priority=02]",
                    ietf({"priority": 2, "config": {"priority": 2, "dscp": 9, "queue": 1}}),
                )
            ]
        ),
        lambda i: [c.dscp for c in i.classes],
        [47, 43, 9],
    ),
    "a delete of any name": (
        pb.SetRequest(
            delete=[path("/qclimb/*/class")], update=[update("/qclimb/config/admin-state", ietf("disabled"))]
        ),
        lambda i: i.classes,
        (),
    ),
    "union_replace of two parts": (
        union_replace(
            update("/qclimb/classes", ietf({"class": [{"priority": 0, "config": {"priority": 0, "dscp": 5}}]})),
            update("/qclimb/classes/class[priority=0]/config/queue", ietf(4)),
            update("/qclimb/config", ietf({"generation": 9})),
        ),
        lambda i: (i.generation, i.admin_state, [(c.dscp, c.queue) for c in i.classes]),
        (9, "disabled", [(5, 4)]),
    ),
    "deleting what is not there": (
        pb.SetRequest(delete=[path("/qclimb/classes/class[priority=7]"), path("/qclimb/paths")]),
        lambda i: i,
        BASE,
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_good_set_is_stored_as_rows(case: str, stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    request, read, expected = GOOD[case]
    give(stub, BASE)
    response = stub.Set(request)
    assert read(stored(server)) == expected
    assert [one.op for one in response.response] == (
        [pb.UpdateResult.DELETE] * len(request.delete)
        + [pb.UpdateResult.REPLACE] * len(request.replace)
        + [pb.UpdateResult.UPDATE] * len(request.update)
        + [4] * len(union_replace_of(request.SerializeToString()))
    )
    assert response.prefix == request.prefix


def test_replacing_everything_by_nothing_is_no_intent(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    stub.Set(pb.SetRequest(replace=[update("/qclimb", ietf({}))]))
    assert not any(server.rows("QCLIMB", "QCLIMB_CLASS", "QUEUE").values())


def test_deleting_everything_gives_the_queues_back(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    assert server.rows("QUEUE")["QUEUE"]
    stub.Set(pb.SetRequest(delete=[path("/")]))
    assert not any(
        server.rows("QCLIMB", "QCLIMB_CLASS", "QUEUE", "PORT_QOS_MAP", "SCHEDULER", "QCLIMB_PREVIOUS").values()
    )
