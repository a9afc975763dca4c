"""Get by the gNMI door: wildcards, depth, types, prefixes, counters; a table of requests that are refused."""

# ruff: noqa: E501 - tables of requests read better a line each
from typing import Any

import pytest
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_ext_pb2, gnmi_pb2_grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.intent import SwitchIntent
from qclimb.schema import validate_gnmi

from tests.switchd.gnmi.client import (
    BASE,
    CLASS_0,
    ONCE,
    STREAM,
    config_rows,
    failure,
    give,
    got,
    ietf,
    intent,
    leaf_values,
    one,
    subscription,
    update,
)
from tests.switchd.gnmi.test_subscribe import iter_open
from tests.switchd.stand import COUNTERS, Redis


def test_get_answers_one_notification_a_path(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    assert got(
        stub, "/qclimb/config/generation", f"{CLASS_0}/config/queue", "/qclimb/classes/class[priority=*]/config/dscp"
    ) == [
        ["1"],
        [7],
        [47, 43, 39],
    ]
    assert got(stub, "/qclimb/config/generation", encoding=pb.JSON) == [[1]]


def test_names_may_be_wildcards_and_an_answer_has_none(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    deep = pb.Path(elem=[pb.PathElem(name="..."), pb.PathElem(name="config"), pb.PathElem(name="queue")])
    (found,) = stub.Get(pb.GetRequest(path=[deep], encoding=4)).notification
    assert [(u.path.elem[2].key["priority"], u.val.json_ietf_val) for u in found.update] == [
        ("0", b"7"),
        ("1", b"6"),
        ("2", b"5"),
    ]
    assert got(stub, "/qclimb/*/generation", type=pb.GetRequest.CONFIG) == [["1"]]
    assert got(stub, "/*/config/*", type=pb.GetRequest.CONFIG) == [["1", "enabled", "leaf"]]
    once = stub.Subscribe(iter([subscription("/qclimb/classes/*[priority=1]/config/*", ONCE)]))
    assert set(leaf_values(next(once)).values()) == {1, 43, 6, "balanced", "0"}


def test_paths_below_a_prefix_with_a_wildcard_are_told_apart(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    prefix = pb.Path(target="l1", origin="qclimb", elem=path("/qclimb/classes/class[priority=*]/config").elem)
    request = pb.GetRequest(prefix=prefix, path=[path("queue"), path("dscp")], encoding=4)
    queues, dscps = stub.Get(request).notification
    assert [(u.path.elem[0].key["priority"], u.val.json_ietf_val) for u in queues.update] == [
        ("0", b"7"),
        ("1", b"6"),
        ("2", b"5"),
    ]
    assert (dscps.prefix.target, dscps.prefix.origin) == ("l1", "qclimb")
    assert [each.name for each in dscps.prefix.elem] == ["qclimb", "classes"]
    listed = pb.SubscriptionList(
        prefix=prefix, encoding=4, mode=ONCE, subscription=[pb.Subscription(path=path("dscp"))]
    )
    first = next(stub.Subscribe(iter([pb.SubscribeRequest(subscribe=listed)])))
    assert sorted(leaf_values(first).items()) == [(f"class[{p}]/config/dscp", 47 - 4 * p) for p in range(3)]


def depth(level: int) -> list[Any]:
    return [gnmi_ext_pb2.Extension.FromString(bytes([0x2A, 2, 8, level]))]


def test_a_depth_leaves_out_what_lies_deeper(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    only = {"type": pb.GetRequest.CONFIG}
    assert got(stub, "/qclimb", extension=depth(1), **only) == [[{}]]
    ((two,),) = got(stub, "/qclimb", extension=depth(2), **only)
    assert two == {"qclimb:config": {"generation": "1", "admin-state": "enabled", "tier": "leaf"}}
    ((three,),) = got(stub, "/qclimb", extension=depth(3), **only)
    assert three["qclimb:classes"] == {"class": [{"priority": 0}, {"priority": 1}, {"priority": 2}]}
    assert got(stub, "/qclimb", extension=depth(0), **only) == got(stub, "/qclimb", **only)
    assert got(stub, "/qclimb/config/generation", extension=depth(1)) == [["1"]]
    request = subscription("/qclimb/classes", ONCE)
    request.extension.extend(depth(2))
    assert set(leaf_values(next(stub.Subscribe(iter([request]))))) == {
        f"qclimb/classes/class[{p}]/priority" for p in range(3)
    }


def test_get_of_the_whole_configuration_can_be_set_back(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    ((value,),) = got(stub, "/", type=pb.GetRequest.CONFIG)
    assert SwitchIntent.from_gnmi(value) == BASE
    ((below,),) = got(stub, "/qclimb", type=pb.GetRequest.CONFIG)
    assert set(below) == {"qclimb:config", "qclimb:classes"}
    before = config_rows(server)
    stub.Set(pb.SetRequest(replace=[update("/qclimb", ietf(below))]))
    assert config_rows(server) == before


def test_get_tells_config_from_state(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    ((state,),) = got(stub, "/qclimb", type=pb.GetRequest.STATE)
    assert set(state) == {"qclimb:state", "qclimb:classes", "qclimb:ports"}
    assert state["qclimb:state"]["applied-generation"] == "1"
    assert state["qclimb:state"]["admin-state"] == "enabled"
    assert state["qclimb:classes"]["class"][1]["priority"] == 1
    assert state["qclimb:classes"]["class"][1]["state"]["queue"] == 6
    assert "config" not in state["qclimb:classes"]["class"][1]
    ((operational,),) = got(stub, "/qclimb/state", type=pb.GetRequest.OPERATIONAL)
    leaves = {"desired-generation", "applied-generation", "applied-at", "verification", "path-backend"}
    assert set(operational) == {f"qclimb:{leaf}" for leaf in leaves}


def test_get_echoes_the_prefix_and_answers_below_it(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    prefix = pb.Path(target="l1", elem=path("/qclimb/classes").elem)
    response = stub.Get(
        pb.GetRequest(prefix=prefix, path=[path("class[priority=1]/config/queue")], encoding=pb.JSON_IETF)
    )
    (notification,) = response.notification
    assert notification.prefix == prefix
    assert notification.update[0].path == path("class[priority=1]/config/queue")


def test_a_class_tells_its_counters_added_up_over_ports(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    counters = server.db(COUNTERS)
    for number, port in enumerate(("Ethernet0", "Ethernet4")):
        counters.hset("COUNTERS_QUEUE_NAME_MAP", f"{port}:6", f"oid:{number}")
        counters.hset(f"COUNTERS:oid:{number}", mapping={"SAI_QUEUE_STAT_PACKETS": 3, "SAI_QUEUE_STAT_BYTES": 2**62})
    state = "/qclimb/classes/class[priority=1]/state"
    assert got(stub, f"{state}/packets", f"{state}/bytes") == [["6"], [str(2**63)]]
    port = "/qclimb/ports/port[name=Ethernet4]/state"
    assert got(stub, f"{port}/packets", f"{port}/bytes", f"{port}/status") == [["3"], [str(2**62)], ["unverified"]]
    assert failure(lambda: got(stub, f"{state}/dropped-packets")) == (
        "NOT_FOUND",
        f"{state}/dropped-packets: nothing there",
    )
    once = stub.Subscribe(iter([subscription(f"{state}/packets", ONCE)]))
    assert list(leaf_values(next(once)).values()) == ["6"]


BAD_GETS: dict[str, tuple[pb.GetRequest, str, str]] = {
    "not in the schema": (pb.GetRequest(path=[path("/qclimb/colour")], encoding=4), "INVALID_ARGUMENT", "/qclimb/colour: no 'colour' under /qclimb"),
    "a type that is none": (pb.GetRequest(path=[path("/qclimb")], encoding=4, type=7), "INVALID_ARGUMENT", "type is 7"),
    "a model that is not served": (pb.GetRequest(path=[path("/qclimb")], encoding=4, use_models=[pb.ModelData(name="openconfig-qos")]), "UNIMPLEMENTED", "use_models: 'openconfig-qos' is not served"),
    "no name like that": (pb.GetRequest(path=[path("/qclimb/*/colour")], encoding=4), "INVALID_ARGUMENT", "/qclimb/*/colour: no name in the schema is like that"),
    "any depth twice": (pb.GetRequest(path=[pb.Path(elem=[pb.PathElem(name="..."), pb.PathElem(name="class"), pb.PathElem(name="...")])], encoding=4), "INVALID_ARGUMENT", "'...' is there 2 times"),
    "a key for any name": (pb.GetRequest(path=[path("/qclimb/*[colour=1]")], encoding=4), "INVALID_ARGUMENT", "no name in the schema is like that"),
    "an election": (pb.GetRequest(path=[path("/qclimb")], encoding=4, extension=[gnmi_ext_pb2.Extension(master_arbitration=gnmi_ext_pb2.MasterArbitration(election_id=gnmi_ext_pb2.Uint128(low=1)))]), "INVALID_ARGUMENT", "extension master_arbitration does not belong to a GetRequest, expected depth"),
    "5,000 digits as a key": (pb.GetRequest(path=[path(f"/qclimb/classes/class[priority={'9' * 5000}]")], encoding=4), "NOT_FOUND", "priority=999"),
    "no such entry": (pb.GetRequest(path=[path("/qclimb/classes/class[priority=9]")], encoding=4), "NOT_FOUND", "/qclimb/classes/class[priority=9]: nothing there"),
    "no such leaf": (pb.GetRequest(path=[path("/qclimb/config/ecn-min-bytes")], encoding=4), "NOT_FOUND", "/qclimb/config/ecn-min-bytes: nothing there"),
    "PROTO": (pb.GetRequest(path=[path("/qclimb")], encoding=pb.PROTO), "UNIMPLEMENTED", "encoding PROTO is not supported"),
    "a number that is no encoding": (pb.GetRequest(path=[path("/qclimb")], encoding=99), "UNIMPLEMENTED", "encoding 99"),
    "an extension": (pb.GetRequest(path=[path("/qclimb")], encoding=4, extension=[gnmi_ext_pb2.Extension(history=gnmi_ext_pb2.History())]), "UNIMPLEMENTED", "extension history"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_GETS)
def test_a_bad_get_is_refused_by_name(case: str, stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    request, code, text = BAD_GETS[case]
    found, said = failure(lambda: stub.Get(request))
    assert (found, text in said) == (code, True), said


def test_each_port_tells_whether_it_holds_the_intent(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    server.load({"PORT_QOS_MAP": {"Ethernet4": {"pfc_enable": "6"}}})
    give(stub, BASE)
    held, refused = (got(stub, f"/qclimb/ports/port[name={port}]/state")[0][0] for port in ("Ethernet0", "Ethernet4"))
    assert (held["qclimb:status"], "qclimb:reason" in held) == ("unverified", False)  # there is no ASIC_DB here
    assert (refused["qclimb:status"], "queue 6 has PFC" in refused["qclimb:reason"]) == ("refused", True)
    assert got(stub, "/qclimb/state/verification") == [["unverified"]]
    whole = got(stub, "/")[0][0]
    validate_gnmi(whole, state=True)
    assert SwitchIntent.from_gnmi(whole) == BASE
    code, text = failure(lambda: stub.Set(one("/qclimb/ports/port[name=Ethernet0]/state/status", ietf("applied"))))
    assert (code, "is state" in text) == ("INVALID_ARGUMENT", True)


def test_a_switch_that_was_never_configured_answers(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    ((config,),) = got(stub, "/qclimb", type=pb.GetRequest.CONFIG)
    assert config == {"qclimb:config": {"admin-state": "disabled", "tier": "leaf"}}
    ((state,),) = got(stub, "/qclimb/state")
    assert state["qclimb:admin-state"] == "disabled"
    stub.Set(pb.SetRequest(replace=[update("/qclimb", ietf(config))]))  # what was read can be set back
    assert not any(config_rows(server).values())


def test_a_default_that_is_in_use_is_a_value(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    """gNMI specification 3.3.4 and 3.5.2.3: it is got, and told as an update when what was set goes."""
    give(stub, intent(1, 7, tier="spine"))
    call = stub.Subscribe(iter_open(subscription("/qclimb/config", STREAM, mode=pb.ON_CHANGE)), timeout=120)
    assert leaf_values(next(call))["qclimb/config/tier"] == "spine"
    assert next(call).sync_response
    stub.Set(pb.SetRequest(delete=[path("/qclimb/config/tier")]))
    assert leaf_values(next(call)) == {"qclimb/config/tier": "leaf"}
    assert got(stub, "/qclimb/config/tier", "/qclimb/state/tier") == [["leaf"], ["leaf"]]
    stub.Set(pb.SetRequest(delete=[path("/qclimb")]))
    told = next(call)
    assert leaf_values(told) == {"qclimb/config/admin-state": "disabled"}
    assert [gone.elem[-1].name for gone in told.update.delete] == ["generation"]
    call.cancel()
