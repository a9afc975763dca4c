"""Certificates of the lab, used by two TLS ends on a socket pair."""

import socket
import ssl
import stat
import threading

import pytest
from qclimb.pki import Authority


def handshake(server_context, client_context, server_name):
    """The client's view; raises what the client raises. The server's view of the client's certificate is returned."""
    here, there = socket.socketpair()
    seen = {}

    def serve():
        try:
            with server_context.wrap_socket(there, server_side=True) as channel:
                seen["client"] = channel.getpeercert()
                channel.sendall(b"!")
        except (ssl.SSLError, OSError) as error:
            seen["error"] = error
            there.close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        with client_context.wrap_socket(here, server_hostname=server_name) as channel:
            seen["byte"] = channel.recv(1)
    finally:
        here.close()
        server.join(60)
    return seen


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "pki")


def contexts(authority, client_authority=None, with_client=True):
    pair = authority.server("l1", "198.18.0.11")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    server.load_verify_locations(authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(authority.certificate))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    if with_client:
        own = (client_authority or authority).client("qclimb-orchestrator")
        client.load_cert_chain(own.certificate, own.key)
    return server, client


@pytest.mark.parametrize("name", ["198.18.0.11", "l1"])
def test_server_and_client_know_each_other_by_address_or_name(authority, name):
    seen = handshake(*contexts(authority), name)
    assert seen["byte"] == b"!"
    assert ((("commonName", "qclimb-orchestrator"),)) in seen["client"]["subject"]


def test_a_server_at_another_address_is_refused(authority):
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(*contexts(authority), "198.18.0.12")


def test_a_client_of_another_authority_is_refused(authority, tmp_path):
    seen = {}
    try:
        seen = handshake(*contexts(authority, Authority(tmp_path / "other")), "l1")
    except (ssl.SSLError, OSError):
        return
    assert seen.get("byte") != b"!"


def test_keys_are_for_their_owner_alone(authority):
    for pair in (authority.server("s1", "198.18.0.13"), authority.client("someone")):
        assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
