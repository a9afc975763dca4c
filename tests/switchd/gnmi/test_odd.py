"""Clients that do what few do: certificates out of their time, tokens, compression, values of megabytes."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
import trustme
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc
from qclimb.errors import IntentError
from qclimb.intent import QueueClass, SwitchIntent
from qclimb.schema import validate_gnmi

from switchd.gnmi.limits import MAX_SET_BYTES
from tests.switchd.gnmi.client import BASE, GENERATION, channel, failure, give, got, ietf, one, stored
from tests.switchd.stand import Daemon, Pki, Redis, running_daemon

DAY = timedelta(days=1)


@pytest.mark.parametrize(("begins", "ends"), [(-2, -1), (1, 2), (-1, 1)])
def test_a_certificate_counts_in_its_time_alone(alone: Redis, tmp_path: Path, begins: int, ends: int) -> None:
    authority, now = trustme.CA(), datetime.now(UTC)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name, life in (
        ("switch", {}),
        ("orchestrator", {"not_before": now + begins * DAY, "not_after": now + ends * DAY}),
    ):
        cert = authority.issue_cert("127.0.0.1", common_name=name, **life)
        cert.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        cert.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    with running_daemon(alone.url, Pki(tmp_path), tmp_path / "log") as daemon, channel(daemon, "orchestrator") as found:
        stub = gnmi_pb2_grpc.gNMIStub(found)
        if begins < 0 < ends:
            give(stub, BASE)
            return
        assert failure(lambda: give(stub, BASE))[0] == "UNAVAILABLE"
        assert not alone.rows("QCLIMB")["QCLIMB"]


def test_names_and_tokens_beside_a_certificate_give_no_right(daemon: Daemon, server: Redis) -> None:
    told = (("username", "orchestrator"), ("password", "x"), ("authorization", "Bearer " + "A" * 3000))
    request = one(GENERATION, ietf(9))
    with channel(daemon, "viewer") as found:
        code, text = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Set(request, metadata=told))
    assert (code, "viewer may read only" in text) == ("PERMISSION_DENIED", True), text
    with channel(daemon, "stranger") as found:
        code, _ = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Get(pb.GetRequest(), metadata=told))
    assert code == "UNAUTHENTICATED"


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_read_and_what_swells_is_refused(
    stub: gnmi_pb2_grpc.gNMIStub, server: Redis, how: grpc.Compression
) -> None:
    give(stub, BASE)
    asked = pb.GetRequest(path=[path(GENERATION)], encoding=pb.JSON_IETF)
    assert stub.Get(asked, compression=how).notification[0].update[0].val.json_ietf_val == b'"1"'
    swollen = pb.GetRequest(path=[pb.Path(origin="A" * (30 << 20))], encoding=pb.JSON_IETF)
    assert failure(lambda: stub.Get(swollen, compression=how))[0] == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("method", ["/gnmi.gNMI/Nope", "/grpc.health.v1.Health/Check", "/gnoi.system.System/Reboot"])
def test_what_is_not_served_says_so(daemon: Daemon, method: str) -> None:
    with channel(daemon, "orchestrator") as found:
        assert failure(lambda: found.unary_unary(method)(b""))[0] == "UNIMPLEMENTED"


def test_a_set_larger_than_any_intent_is_refused_and_the_largest_intent_is_not(
    stub: gnmi_pb2_grpc.gNMIStub, server: Redis
) -> None:
    give(stub, BASE)
    code, text = failure(
        lambda: stub.Set(one(GENERATION, pb.TypedValue(json_ietf_val=b'"%s"' % (b"1" * MAX_SET_BYTES))))
    )
    assert code == "RESOURCE_EXHAUSTED"
    assert text.startswith("the SetRequest has 1048") and text.endswith(f"bytes, expected at most {MAX_SET_BYTES}")
    assert stored(server) == BASE
    code, text = failure(lambda: stub.Set(one(GENERATION, pb.TypedValue(json_ietf_val=b'"%s"' % (b"1" * 1_000_000)))))
    assert (code, text.startswith(f"{GENERATION} is '111")) == ("INVALID_ARGUMENT", True)
    names = tuple(f"Ethernet{n}" for n in range(1024))
    free = (*range(3), *range(5, 46), 47, *range(49, 64))
    classes = tuple(
        QueueClass(p, dscp, 7, f"s{p}", threshold_bytes=(2**62 + p) * bool(p)) for p, dscp in enumerate(free)
    )
    with_all = SwitchIntent(2**63, "enabled", classes, ports=names)
    assert len(one("/", ietf(with_all.to_gnmi())).SerializeToString()) < MAX_SET_BYTES / 10
    assert got(stub, GENERATION) == [["1"]]


def test_a_sentence_about_a_value_of_megabytes_names_its_place_and_is_short() -> None:
    classes = [{"priority": 0, "config": {"priority": 0, "dscp": 47, "queue": 7, "path": "x" * (1 << 20)}}]
    with pytest.raises(IntentError) as error:
        validate_gnmi({"config": {"generation": "1"}, "classes": {"class": classes}})
    assert len(str(error.value)) < 10_000
    assert str(error.value).startswith("/qclimb:qclimb/classes/class[priority='0']/config/path: ")
