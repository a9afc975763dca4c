"""The gNMI door with mutual TLS, as pygnmi and a raw stub use it: tables of good and bad requests with code and message."""

# ruff: noqa: E501 - tables of requests read better a line each
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as Any_
from google.protobuf.internal import encoder
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from pygnmi.client import gNMIException
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_ext_pb2, gnmi_pb2_grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.gnmi_ext import union_replace_of
from qclimb.intent import SwitchIntent
from qclimb.schema import validate_gnmi

from tests.switchd.gnmi.client import (
    BASE,
    ONCE,
    channel,
    config_rows,
    failure,
    give,
    got,
    ietf,
    intent,
    leaf_values,
    stored,
    subscription,
    update,
)
from tests.switchd.stand import COUNTERS, Daemon, Pki, Redis, running_daemon, running_redis, wait_until
from tests.switchd.stand import PLATFORM as PLATFORM_ROWS

# pygnmi's subscription thread raises when its channel is closed
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

# Capabilities and access


def test_capabilities_name_the_model_and_json_only(daemon: Daemon) -> None:
    with daemon.client("viewer") as client:
        found = client.capabilities()
    assert found["gnmi_version"] == "0.10.0"
    assert found["supported_encodings"] == ["json_ietf", "json"]
    assert [(m["name"], m["organization"]) for m in found["supported_models"]] == [("qclimb", "The qclimb project")]


def test_a_client_without_a_row_is_nobody(daemon: Daemon) -> None:
    with channel(daemon, "stranger") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        for call in (
            lambda: stub.Capabilities(pb.CapabilityRequest()),
            lambda: stub.Get(pb.GetRequest(path=[path("/qclimb")], encoding=pb.JSON_IETF)),
            lambda: stub.Set(pb.SetRequest()),
            lambda: list(stub.Subscribe(iter([pb.SubscribeRequest()]))),
        ):
            assert failure(call) == ("UNAUTHENTICATED", "no row GNMI_CLIENT_CERT|stranger in CONFIG_DB")


def test_a_reader_may_not_write(daemon: Daemon, server: Redis) -> None:
    with channel(daemon, "viewer") as found:
        code, text = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Set(pb.SetRequest(delete=[path("/qclimb")])))
    assert code == "PERMISSION_DENIED"
    assert "gnmi_config_db_readwrite" in text


def test_a_certificate_of_another_ca_gets_no_connection(daemon: Daemon) -> None:
    with channel(daemon, "forger") as found:
        code, _ = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Capabilities(pb.CapabilityRequest(), timeout=120))
    assert code == "UNAVAILABLE"


def test_a_client_without_tls_gets_no_connection(daemon: Daemon) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{daemon.port}") as found:
        code, _ = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Capabilities(pb.CapabilityRequest(), timeout=120))
    assert code == "UNAVAILABLE"


# Set


def union_replace(*updates: pb.Update, **more: Any) -> pb.SetRequest:
    """A request with the field that pygnmi's stubs do not know."""
    serialized = [each.SerializeToString() for each in updates]
    fields = b"".join(b"\x32" + encoder._VarintBytes(len(each)) + each for each in serialized)
    return pb.SetRequest.FromString(fields + pb.SetRequest(**more).SerializeToString())


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


def test_a_status_has_the_path_in_details_that_a_program_can_read(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    for request, field in (
        (one(f"{CLASS_0}/config/dscp", ietf(64)), "/qclimb:qclimb/classes/class[priority='0']/config/dscp"),
        (one("/qclimb/config/colour", ietf(64)), "/qclimb/config/colour"),
        (one("/qclimb/config", ietf({"admin-state": "\u4e16" * 10**5})), "/qclimb:qclimb/config/admin-state"),
    ):
        with pytest.raises(grpc.RpcError) as error:
            stub.Set(request)
        (trailer,) = (value for key, value in error.value.trailing_metadata() if key == "grpc-status-details-bin")
        status, info, bad = Status.FromString(trailer), ErrorInfo(), BadRequest()
        assert (status.code, status.message) == (error.value.code().value[0], error.value.details())
        status.details[0].Unpack(info)
        status.details[1].Unpack(bad)
        assert (info.domain, info.reason, dict(info.metadata)) == ("qclimb", error.value.code().name, {"path": field})
        assert [each.field for each in bad.field_violations] == [field]


def test_deleting_everything_gives_the_queues_back(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    assert server.rows("QUEUE")["QUEUE"]
    stub.Set(pb.SetRequest(delete=[path("/")]))
    assert not any(
        server.rows("QCLIMB", "QCLIMB_CLASS", "QUEUE", "PORT_QOS_MAP", "SCHEDULER", "QCLIMB_PREVIOUS").values()
    )


GENERATION = "/qclimb/config/generation"
CLASS_0 = "/qclimb/classes/class[priority=0]"


def one(where: str, value: pb.TypedValue) -> pb.SetRequest:
    return pb.SetRequest(update=[update(where, value)])


BAD: dict[str, tuple[pb.SetRequest, str, str]] = {
    "bytes": (one(GENERATION, pb.TypedValue(bytes_val=b"9")), "INVALID_ARGUMENT", f"{GENERATION}: encoding bytes_val is not supported"),
    "proto": (one("/qclimb", pb.TypedValue(proto_bytes=b"9")), "INVALID_ARGUMENT", "/qclimb: encoding proto_bytes is not supported"),
    "any": (one("/qclimb", pb.TypedValue(any_val=Any_())), "INVALID_ARGUMENT", "/qclimb: encoding any_val is not supported"),
    "ascii": (one("/qclimb", pb.TypedValue(ascii_val="9")), "UNIMPLEMENTED", "/qclimb: encoding ascii_val is not supported"),
    "no value": (one(GENERATION, pb.TypedValue()), "INVALID_ARGUMENT", f"{GENERATION}: an update without a value"),
    "a scalar for a container": (one("/qclimb", pb.TypedValue(uint_val=1)), "INVALID_ARGUMENT", "/qclimb: uint_val does not fit a container"),
    "broken JSON": (one("/qclimb", pb.TypedValue(json_ietf_val=b"{")), "INVALID_ARGUMENT", "/qclimb: no JSON"),
    "deep JSON": (one("/qclimb", pb.TypedValue(json_ietf_val=b"[" * 10**5)), "INVALID_ARGUMENT", "/qclimb: no JSON"),
    "JSON that is not UTF-8": (one("/qclimb", pb.TypedValue(json_ietf_val=b'"\xff"')), "INVALID_ARGUMENT", "/qclimb: no JSON"),
    "a member twice": (one("/qclimb", pb.TypedValue(json_ietf_val=b'{"config":{},"config":{}}')), "INVALID_ARGUMENT", "/qclimb: no JSON: a member is there twice"),
    "NaN": (one(GENERATION, pb.TypedValue(json_ietf_val=b"NaN")), "INVALID_ARGUMENT", f"{GENERATION}: no JSON"),
    "an array for a container": (one("/qclimb/config", ietf([])), "INVALID_ARGUMENT", "/qclimb/config: expected an object"),
    "an object for a leaf": (one(GENERATION, ietf({})), "INVALID_ARGUMENT", f"{GENERATION}: expected one value"),
    "out of range": (one(f"{CLASS_0}/config/dscp", ietf(64)), "INVALID_ARGUMENT", "/qclimb:qclimb/classes/class[priority='0']/config/dscp"),
    "a wrong type": (one(f"{CLASS_0}/config/dscp", ietf("many")), "INVALID_ARGUMENT", "config/dscp"),
    "two signs": (one(GENERATION, ietf("--5")), "INVALID_ARGUMENT", "generation"),
    "digits of another script": (one(GENERATION, ietf("\u0663")), "INVALID_ARGUMENT", "generation"),
    "5,000 digits": (one(GENERATION, ietf("9" * 5000)), "INVALID_ARGUMENT", "generation"),
    "5,000 digits as a key": (one(f"/qclimb/classes/class[priority={'9' * 5000}]/config/dscp", ietf(3)), "INVALID_ARGUMENT", "priority"),
    "a key of another script": (one("/qclimb/classes/class[priority=\u0663]/config/dscp", ietf(3)), "INVALID_ARGUMENT", "priority"),
    "half a character": (one("/qclimb/config", pb.TypedValue(json_ietf_val=b'{"\\ud800":1}')), "NOT_FOUND", "no '\\ud800' under /qclimb/config"),
    "3 MB that are repeated in the message": (one("/qclimb/config", ietf({"admin-state": "x" * 3_000_000})), "INVALID_ARGUMENT", "admin-state"),
    "true for a number": (one(GENERATION, ietf(True)), "INVALID_ARGUMENT", "generation"),
    "a fraction for a number": (one(GENERATION, ietf(1.5)), "INVALID_ARGUMENT", "generation"),
    "a must that fails": (one(f"{CLASS_0}/config/threshold-bytes", ietf("7")), "INVALID_ARGUMENT", "the first priority begins at 0 bytes"),
    "a mandatory leaf gone": (pb.SetRequest(delete=[path(f"{CLASS_0}/config/dscp")]), "INVALID_ARGUMENT", "dscp"),
    "a priority left out": (pb.SetRequest(delete=[path(CLASS_0)]), "INVALID_ARGUMENT", "priorities start at 0"),
    "the key gone": (pb.SetRequest(delete=[path(f"{CLASS_0}/priority")]), "INVALID_ARGUMENT", "priority"),
    "{} on a list entry": (one(CLASS_0, ietf({})), "INVALID_ARGUMENT", f"{CLASS_0}: expected an object with"),
    "a key that contradicts the path": (one(CLASS_0, ietf({"priority": 1, "config": {"dscp": 1}})), "INVALID_ARGUMENT", f"{CLASS_0}: priority is 1, which contradicts the key '0'"),
    "config's key that contradicts": (one(f"{CLASS_0}/config", ietf({"priority": 1})), "INVALID_ARGUMENT", "priority"),
    "an entry twice": (one("/qclimb/classes", ietf({"class": [{"priority": 0, "config": {}}] * 2})), "INVALID_ARGUMENT", "/qclimb/classes/class: the entry 0 is there twice"),
    "an entry without its key": (one("/qclimb/classes", ietf({"class": [{"config": {"dscp": 1}}]})), "INVALID_ARGUMENT", "/qclimb/classes/class: an entry without its key 'priority'"),
    "a list without keys": (one("/qclimb/classes/class", ietf([])), "INVALID_ARGUMENT", "/qclimb/classes/class: a replace or an update needs every list key"),
    "a wildcard": (one("/qclimb/classes/class[priority=*]", ietf({})), "INVALID_ARGUMENT", "without wildcards"),
    "a key of another name": (one("/qclimb/classes/class[name=0]", ietf({})), "INVALID_ARGUMENT", "/qclimb/classes/class[name=0]: list 'class' has keys priority, got name"),
    "a key where no list is": (one("/qclimb[name=0]", ietf({})), "INVALID_ARGUMENT", "'qclimb' is no list"),
    "a path that the schema has not": (one("/qclimb/config/colour", ietf(1)), "NOT_FOUND", "/qclimb/config/colour: no 'colour' under /qclimb/config"),
    "a member that the schema has not": (one("/qclimb/config", ietf({"colour": 1})), "NOT_FOUND", "/qclimb/config/colour: no 'colour'"),
    "deleting what the schema has not": (pb.SetRequest(delete=[path("/interfaces")]), "NOT_FOUND", "/interfaces: no 'interfaces' under /"),
    "state by path": (one("/qclimb/state/applied-generation", ietf(1)), "INVALID_ARGUMENT", "/qclimb/state/applied-generation is state"),
    "state in a value": (one("/qclimb", ietf({"state": {"last-error": "x"}})), "INVALID_ARGUMENT", "/qclimb/state is state"),
    "an unknown origin": (pb.SetRequest(delete=[pb.Path(origin="sonic-db", elem=path("/qclimb").elem)]), "INVALID_ARGUMENT", "origin 'sonic-db' is not known here"),
    "an origin twice": (pb.SetRequest(prefix=pb.Path(origin="qclimb"), delete=[pb.Path(origin="qclimb", elem=path("/qclimb").elem)]), "INVALID_ARGUMENT", "an origin in both prefix"),
    "element alone": (pb.SetRequest(delete=[pb.Path(element=["qclimb"])]), "INVALID_ARGUMENT", "the deprecated field 'element'"),
    "union_replace beside another": (union_replace(update("/qclimb", ietf({})), delete=[path("/qclimb")]), "INVALID_ARGUMENT", "union_replace is to be the only operation"),
    "union_replace of two minds": (union_replace(update(CLASS_0, ietf({"config": {"dscp": 1, "queue": 7}})), update(f"{CLASS_0}/config/dscp", ietf(2))), "INVALID_ARGUMENT", f"{CLASS_0}/config/dscp: union_replace tells two values of /qclimb/classes/class/0/config/dscp"),
    "union_replace of a command line": (union_replace(pb.Update(path=pb.Path(origin="sonic_cli"), val=pb.TypedValue(ascii_val="x"))), "INVALID_ARGUMENT", "origin 'sonic_cli' is not known here"),
    "union_replace of bytes that are no update": (pb.SetRequest.FromString(b"\x32\x01\xff"), "INVALID_ARGUMENT", "union_replace: 1 bytes can't be parsed"),
    "a field that nobody knows": (pb.SetRequest.FromString(b"\x4a\x00"), "UNIMPLEMENTED", "field 9 of SetRequest is not supported"),
    "a commit without an action": (pb.SetRequest(extension=[gnmi_ext_pb2.Extension.FromString(b"\x22\x03\x0a\x01a")]), "INVALID_ARGUMENT", "commit 'a': 0 actions"),
    "an election without an id": (pb.SetRequest(extension=[gnmi_ext_pb2.Extension(master_arbitration=gnmi_ext_pb2.MasterArbitration())]), "INVALID_ARGUMENT", "master_arbitration without an election_id"),
    "a depth": (pb.SetRequest(extension=[gnmi_ext_pb2.Extension.FromString(b"\x2a\x02\x08\x01")]), "INVALID_ARGUMENT", "extension depth does not belong to a SetRequest"),
    "an extension that nobody knows": (pb.SetRequest(extension=[gnmi_ext_pb2.Extension.FromString(b"\x32\x00")]), "UNIMPLEMENTED", "extension config_subscription is not supported"),
    "any name in a replace": (one("/qclimb/*/generation", ietf(1)), "INVALID_ARGUMENT", "wildcard"),
    "any state": (pb.SetRequest(delete=[path("/qclimb/state/*")]), "INVALID_ARGUMENT", "is state, it can't be set"),
    "a queue with PFC": (one("/qclimb/classes/class[priority=2]/config/queue", ietf(4)), "FAILED_PRECONDITION", "Ethernet0: queue 4 has PFC"),
    "a path through a spine": (one(f"{CLASS_0}/config/path", ietf("s1")), "FAILED_PRECONDITION", "class 0: path 's1': no uplink leads there"),
    "weights": (one("/qclimb/paths", ietf({"path": [{"name": "s1", "config": {"share": "1"}}]})), "FAILED_PRECONDITION", "path 's1': no uplink leads there"),
    "a port that is not there": (one("/qclimb/config/ports", ietf(["Ethernet99"])), "FAILED_PRECONDITION", "port 'Ethernet99' is not in the table PORT"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_set_is_refused_by_name_and_changes_nothing(
    case: str, stub: gnmi_pb2_grpc.gNMIStub, server: Redis
) -> None:
    request, code, text = BAD[case]
    give(stub, BASE)
    server.load({"PORT_QOS_MAP": {f"Ethernet{4 * n}": {"pfc_enable": "3,4"} for n in range(4)}})
    tables = ("QCLIMB", "QCLIMB_CLASS", "QCLIMB_PATH", "QUEUE", "PORT_QOS_MAP", "SCHEDULER", "DSCP_TO_TC_MAP")
    before = server.rows(*tables)
    mixed = pb.SetRequest()
    mixed.CopyFrom(request)
    mixed.update.insert(0, update("/qclimb/config/generation", ietf(77)))  # must not be stored without the rest
    for each in (request, mixed)[: 1 if union_replace_of(request.SerializeToString()) else 2]:
        found, said = failure(lambda each=each: stub.Set(each))
        assert (found, text in said) == (code, True), said
    assert server.rows(*tables) == before
    got = stub.Get(pb.GetRequest(path=[path(GENERATION)], encoding=pb.JSON_IETF))
    assert got.notification[0].update[0].val.json_ietf_val == b'"1"'


def test_pygnmi_is_told_when_it_sends_proto_bytes(daemon: Daemon) -> None:
    with daemon.client() as client, pytest.raises(gNMIException, match="encoding proto_bytes is not supported"):
        client.set(update=[("/qclimb/config/generation", "9")], encoding="proto")


# Get


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
    assert got(stub, "/*/config/*", type=pb.GetRequest.CONFIG) == [["1", "enabled"]]
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
    assert two == {"qclimb:config": {"generation": "1", "admin-state": "enabled"}}
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
    assert held == {"qclimb:name": "Ethernet0", "qclimb:status": "unverified"}  # there is no ASIC_DB here
    assert (refused["qclimb:status"], "queue 6 has PFC" in refused["qclimb:reason"]) == ("refused", True)
    assert got(stub, "/qclimb/state/verification") == [["unverified"]]
    whole = got(stub, "/")[0][0]
    validate_gnmi(whole, state=True)
    assert SwitchIntent.from_gnmi(whole) == BASE
    code, text = failure(lambda: stub.Set(one("/qclimb/ports/port[name=Ethernet0]/state/status", ietf("applied"))))
    assert (code, "is state" in text) == ("INVALID_ARGUMENT", True)


def test_a_switch_that_was_never_configured_answers(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    assert got(stub, "/qclimb", type=pb.GetRequest.CONFIG) == [[{}]]
    ((state,),) = got(stub, "/qclimb/state")
    assert state["qclimb:admin-state"] == "disabled"


def test_redis_away_is_unavailable_not_a_crash(server: Redis, pki: Pki, tmp_path: Path) -> None:
    with running_redis() as own:
        own.load(PLATFORM_ROWS)
        with running_daemon(own.url, pki, tmp_path / "log") as daemon, channel(daemon, "orchestrator") as found:
            stub = gnmi_pb2_grpc.gNMIStub(found)
            give(stub, BASE)
            own.kill()
            code, text = failure(lambda: give(stub, intent(2, 7)))
            assert code == "UNAVAILABLE"
            assert "redis" in text
            own.start()
            wait_until(lambda: got(stub, "/qclimb/state/applied-generation") == [["1"]], "the switch answers again")
