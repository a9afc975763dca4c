"""Who may do what: certificates, rows of GNMI_CLIENT_CERT, TLS; by pygnmi and a raw stub."""

from datetime import datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pygnmi.create_gnmi_path import gnmi_path_generator as path
from pygnmi.spec.v080 import gnmi_pb2 as pb
from pygnmi.spec.v080 import gnmi_pb2_grpc

from switchd.gnmi.access import client_of, common_names
from switchd.gnmi.errors import RpcError
from tests.switchd.gnmi.client import (
    channel,
    failure,
)
from tests.switchd.stand import Daemon, Redis


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


class NoRows:
    def get_whole_entry(self, table: str, key: str) -> dict[str, str]:
        return {"role@": "gnmi_config_db_readwrite"}


def certificate(*names: str) -> bytes:
    key, day = ec.generate_private_key(ec.SECP256R1()), datetime(2026, 1, 1)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, day, day + timedelta(1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize(
    "names",
    [(), ("a", "b"), ("a", "a"), ("a\nwarning x",), ("a\x1b[2J",), ("a\u202eb",), ("a\0b",)],
    ids=repr,
)
def test_a_certificate_with_no_two_or_unprintable_common_names_is_nobodys(names: tuple[str, ...]) -> None:
    found = common_names(certificate(*names))
    assert found == tuple(name.encode() for name in names)
    with pytest.raises(RpcError) as error:
        client_of(found, NoRows())
    assert error.value.code.name == "UNAUTHENTICATED"
    assert "\n" not in error.value.text and "\x1b" not in error.value.text


def test_a_certificate_with_one_common_name_is_its_rows() -> None:
    assert client_of(common_names(certificate("orchestrator")), NoRows()).may_write
    assert common_names(b"no PEM") == ()


def test_a_certificate_of_another_ca_gets_no_connection(daemon: Daemon) -> None:
    with channel(daemon, "forger") as found:
        code, _ = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Capabilities(pb.CapabilityRequest(), timeout=120))
    assert code == "UNAVAILABLE"


def test_a_client_without_tls_gets_no_connection(daemon: Daemon) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{daemon.port}") as found:
        code, _ = failure(lambda: gnmi_pb2_grpc.gNMIStub(found).Capabilities(pb.CapabilityRequest(), timeout=120))
    assert code == "UNAVAILABLE"
