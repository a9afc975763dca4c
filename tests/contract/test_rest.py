"""How a client reaches the orchestrator's REST."""

import pytest
import trustme
from qclimb.errors import EndpointError
from qclimb.lengths import Service
from qclimb.rest import Origin, build_path, client_tls, parse_token


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://h", "https://h:443"),
        ("HTTPS://Orchestrator.Example:8443/", "https://orchestrator.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://localhost", "http://localhost:80"),
        ("http://[::1]:1", "http://[::1]:1"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]:443"),
    ],
)
def test_an_address_is_a_scheme_a_host_and_a_port(url, canonical):
    assert Origin.parse(url).url == canonical


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.1", "http://h", "https://a:secret@h", "https://h/v1", "h", "https://h:0", "https://[::1]h:1"],
)
def test_any_other_address_is_refused_and_no_password_repeated(url):
    with pytest.raises(EndpointError, match="expected") as refused:
        Origin.parse(url)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["adam#2024", "a?b", "a b", "%2e%2e", "\u00fc", "a\x00b", "...", "a\\b"])
def test_a_name_is_one_segment_of_a_path(name):
    path = build_path("tokens", name)
    assert path.count("/") == 3 and path.isascii() and not set("?# \\") & set(path)


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/b", "../switches/s1", "\udcff"])
def test_a_name_that_no_segment_can_carry_is_refused(name):
    with pytest.raises(EndpointError):
        build_path("hosts", name)


def test_a_services_program_may_have_a_slash():
    assert build_path("lengths", Service("a/b", 1, 80)) == "/v1/lengths/a%2Fb%3Aaccepts%3A80"


@pytest.mark.parametrize("content", [b"", b" \n", b"a\nb", b"a b", b"\xff", b"a\x00b", b"a" * 4097])
def test_what_is_no_token_is_refused_and_not_repeated(content):
    with pytest.raises(EndpointError, match="no token in it"):
        parse_token(content)
    assert parse_token(b"qct_a-_.~\r\n") == "qct_a-_.~"


def test_tls_takes_neither_a_ca_nor_a_place_for_its_keys_from_the_environment(tmp_path, monkeypatch):
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    without, own = client_tls(None), client_tls(tmp_path / "ca.pem")
    assert own.get_ca_certs() and own.get_ca_certs()[0] not in without.get_ca_certs()
    assert without.check_hostname and own.check_hostname
    assert own.keylog_filename is without.keylog_filename is None and not (tmp_path / "keys").exists()
    with pytest.raises(OSError):
        client_tls(tmp_path / "missing")
