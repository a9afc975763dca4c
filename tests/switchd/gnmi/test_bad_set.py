"""A table of Sets that are refused: code, message with the path, and nothing changed."""

# ruff: noqa: E501 - tables of requests read better a line each

import grpc
import pytest
from google.protobuf.any_pb2 import Any as Any_
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status
from pygnmi.client import gNMIException
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_ext_pb2, gnmi_pb2_grpc
from pygnmi.spec.v080 import gnmi_pb2 as pb
from qclimb.gnmi_ext import union_replace_of

from tests.switchd.gnmi.client import (
    BASE,
    CLASS_0,
    GENERATION,
    failure,
    give,
    ietf,
    one,
    union_replace,
    update,
)
from tests.switchd.stand import Daemon, Redis

# pygnmi's subscription thread raises when its channel is closed
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

SHARE = f"{CLASS_0}/config/max-share"

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
    "out of range": (one(f"{CLASS_0}/config/dscp", ietf(64)), "INVALID_ARGUMENT", f"{CLASS_0}/config/dscp is 64, expected an integer in 0..63"),
    "voice's DSCP": (one(f"{CLASS_0}/config/dscp", ietf(46)), "INVALID_ARGUMENT", f"{CLASS_0}/config/dscp is 46, expected an integer in 0..2, 5..45, 47, 49..63: switches keep 46 for expedited forwarding"),
    "null": (one(f"{CLASS_0}/config/dscp", ietf(None)), "INVALID_ARGUMENT", f"{CLASS_0}/config/dscp is null, expected an integer in 0..63"),
    "a key that is null": (one("/qclimb/classes", ietf({"class": [{"priority": None, "config": {"dscp": 1, "queue": 7}}]})), "INVALID_ARGUMENT", "/qclimb/classes/class[priority=null]/priority is null, expected an integer in 0..63"),
    "a key as text": (one(CLASS_0, ietf({"priority": "0", "config": {"dscp": 1, "queue": 7}})), "INVALID_ARGUMENT", f"{CLASS_0}/priority is '0', expected an integer in 0..63"),
    "config's key as text": (one(CLASS_0, ietf({"priority": 0, "config": {"priority": "0", "dscp": 1, "queue": 7}})), "INVALID_ARGUMENT", f"{CLASS_0}/config/priority is '0', expected the list's key 0"),
    "a wrong type": (one(f"{CLASS_0}/config/dscp", ietf("many")), "INVALID_ARGUMENT", "config/dscp"),
    "two signs": (one(GENERATION, ietf("--5")), "INVALID_ARGUMENT", "generation"),
    "digits of another script": (one(GENERATION, ietf("\u0663")), "INVALID_ARGUMENT", "generation"),
    "5,000 digits": (one(GENERATION, ietf("9" * 5000)), "INVALID_ARGUMENT", "generation"),
    "5,000 digits as a key": (one(f"/qclimb/classes/class[priority={'9' * 5000}]/config/dscp", ietf(3)), "INVALID_ARGUMENT", "priority"),
    "a key of another script": (one("/qclimb/classes/class[priority=\u0663]/config/dscp", ietf(3)), "INVALID_ARGUMENT", "priority"),
    "half a character": (one("/qclimb/config", pb.TypedValue(json_ietf_val=b'{"\\ud800":1}')), "NOT_FOUND", "no '\\ud800' under /qclimb/config"),
    "1 MB that are repeated in the message": (one("/qclimb/config", ietf({"admin-state": "x" * 1_000_000})), "INVALID_ARGUMENT", "admin-state"),
    "true for a number": (one(GENERATION, ietf(True)), "INVALID_ARGUMENT", f"{GENERATION} is true, expected an integer"),
    "a fraction for a number": (one(GENERATION, ietf(1.5)), "INVALID_ARGUMENT", "generation"),
    "ten digits after the point": (one(SHARE, ietf("0.1234567891")), "INVALID_ARGUMENT", f"{SHARE} is '0.1234567891', expected at most 9 digits"),
    "ten digits of a number": (one(SHARE, ietf(0.1234567891)), "INVALID_ARGUMENT", f"{SHARE} is '0.1234567891', expected at most 9 digits"),
    "ten digits of a double": (one(SHARE, pb.TypedValue(double_val=0.1234567891)), "INVALID_ARGUMENT", f"{SHARE} is '0.1234567891', expected at most 9 digits"),
    "just above the range": (one(SHARE, pb.TypedValue(json_ietf_val=b"1.0000000001")), "INVALID_ARGUMENT", f"{SHARE} is '1.0000000001', expected a number in"),
    "more digits than a double": (one(SHARE, pb.TypedValue(json_ietf_val=b"0.50000000000000000001")), "INVALID_ARGUMENT", f"{SHARE}: no JSON"),
    "an exponent beyond a double": (one(SHARE, pb.TypedValue(json_ietf_val=b"1e99999999999999999999")), "INVALID_ARGUMENT", f"{SHARE}: no JSON"),
    "not a number": (one(SHARE, pb.TypedValue(double_val=float("nan"))), "INVALID_ARGUMENT", f"{SHARE} is 'NaN', expected a decimal number"),
    "infinity": (one(SHARE, pb.TypedValue(float_val=float("inf"))), "INVALID_ARGUMENT", f"{SHARE} is 'Infinity', expected a decimal number"),
    "a must that fails": (one(f"{CLASS_0}/config/threshold-bytes", ietf("7")), "INVALID_ARGUMENT", "the first priority begins at 0 bytes"),
    "a mandatory leaf gone": (pb.SetRequest(delete=[path(f"{CLASS_0}/config/dscp")]), "INVALID_ARGUMENT", f"{CLASS_0}/config lacks 'dscp'"),
    "a priority left out": (pb.SetRequest(delete=[path(CLASS_0)]), "INVALID_ARGUMENT", "priorities start at 0"),
    "the key gone": (pb.SetRequest(delete=[path(f"{CLASS_0}/priority")]), "INVALID_ARGUMENT", "priority"),
    "{} on a list entry": (one(CLASS_0, ietf({})), "INVALID_ARGUMENT", f"{CLASS_0}: expected an object with"),
    "a key that contradicts the path": (one(CLASS_0, ietf({"priority": 1, "config": {"dscp": 1}})), "INVALID_ARGUMENT", f"{CLASS_0}: priority is 1, which contradicts the key '0'"),
    "config's key that contradicts": (one(f"{CLASS_0}/config", ietf({"priority": 1})), "INVALID_ARGUMENT", "priority"),
    "an entry twice": (one("/qclimb/classes", ietf({"class": [{"priority": 0, "config": {}}] * 2})), "INVALID_ARGUMENT", "/qclimb/classes/class: the entry 0 is there twice"),
    "an entry without its key": (one("/qclimb/classes", ietf({"class": [{"config": {"dscp": 1}}]})), "INVALID_ARGUMENT", "/qclimb/classes/class: an entry without its key 'priority'"),
    "an entry for a list": (one("/qclimb/classes/class", ietf({"priority": 0})), "INVALID_ARGUMENT", "/qclimb/classes/class: expected an array of entries"),
    "null for a list": (one("/qclimb/classes/class", ietf(None)), "INVALID_ARGUMENT", "/qclimb/classes/class: expected an array of entries"),
    "a scalar for a list": (one("/qclimb/classes/class", pb.TypedValue(uint_val=1)), "INVALID_ARGUMENT", "/qclimb/classes/class: uint_val does not fit a list"),
    "a leaf of a list without keys": (one("/qclimb/classes/class/config/dscp", ietf(1)), "INVALID_ARGUMENT", "/qclimb/classes/class/config/dscp: a replace or an update needs every list key"),
    "a wildcard": (one("/qclimb/classes/class[priority=*]", ietf({})), "INVALID_ARGUMENT", "without wildcards"),
    "a key of another name": (one("/qclimb/classes/class[name=0]", ietf({})), "INVALID_ARGUMENT", "/qclimb/classes/class[name=0]: list 'class' has keys priority, got name"),
    "a key by both its names": (one("/qclimb/classes/class[priority=0][qclimb:priority=1]", ietf({})), "INVALID_ARGUMENT", "list 'class' has keys priority, got priority, qclimb:priority"),
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


def test_a_status_has_the_path_in_details_that_a_program_can_read(stub: gnmi_pb2_grpc.gNMIStub, server: Redis) -> None:
    give(stub, BASE)
    for request, field in (
        (one(f"{CLASS_0}/config/dscp", ietf(64)), f"{CLASS_0}/config/dscp"),
        (one("/qclimb/config/colour", ietf(64)), "/qclimb/config/colour"),
        (one("/qclimb/config", ietf({"admin-state": "\u4e16" * 10**5})), "/qclimb/config/admin-state"),
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
