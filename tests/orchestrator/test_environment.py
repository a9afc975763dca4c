"""What libraries believe of the environment or the peer: what a setting names, alone (docs/design/environment.md)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import click
import grpc
import httpx
import pytest
from click.testing import CliRunner
from pygnmi.spec.v080 import gnmi_pb2, gnmi_pb2_grpc

from orchestrator.environment import DROPPED, drop_library_settings
from orchestrator.errors import StoreError
from orchestrator.fabric.session import Session
from orchestrator.ingest.stream import opened
from orchestrator.listening import Proxy
from orchestrator.rest.app import make_app
from orchestrator.rest.rates import Rates
from orchestrator.rest.server import configure_server
from orchestrator.store.postgres import checked

PEER = "192.0.2.7"
GUESS = {"Authorization": "Bearer guessed"}


def guess(service, trusted: Sequence[str], forwarded: Sequence[str], *, times: int = 1) -> list[httpx.Response]:
    """Requests with a token that nobody knows, from PEER."""
    config = configure_server(make_app(service), trusted_proxies=trusted)
    config.load()

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(config.loaded_app, client=(PEER, 40_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://orchestrator") as client:
            return [
                await client.get(
                    "/v1/hosts",
                    headers=[*GUESS.items(), *(("X-Forwarded-For", line.replace("#", str(n))) for line in forwarded)],
                )
                for n in range(times)
            ]

    return asyncio.run(ask())


@pytest.mark.parametrize("trusted", [(), ("192.0.2.8/32",)])
def test_a_peer_that_is_no_proxy_guesses_under_its_own_address(service, monkeypatch, trusted):
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("WEB_CONCURRENCY", "many")
    service.rates = Rates(unknown=3)
    answers = guess(service, trusted, ["198.51.100.#"], times=4)
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    service.refusals.close()
    assert {note.actor for note in service.store.notes(10)} == {PEER}


@pytest.mark.parametrize(
    ("forwarded", "actor"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.1, 203.0.113.9, 192.0.2.20"], "203.0.113.9"),
        (["198.51.100.1", "203.0.113.9:5000"], "203.0.113.9"),
        (["2001:db8::9"], "2001:db8::9"),
        ([], PEER),
        ([""], PEER),
    ],
)
def test_of_a_proxys_word_the_rightmost_address_that_is_no_proxy_counts(service, forwarded, actor):
    guess(service, ("192.0.2.0/27",), forwarded)
    service.refusals.close()
    assert {note.actor for note in service.store.notes(10)} == {actor}


@pytest.mark.parametrize(
    ("text", "network"),
    [("192.0.2.7", "192.0.2.7/32"), ("192.0.2.0/28", "192.0.2.0/28"), ("2001:db8::1", "2001:db8::1/128")],
)
def test_a_trusted_proxy_is_an_address_or_a_network(text, network):
    assert Proxy().convert(text, None, None) == network


@pytest.mark.parametrize(
    "text", ["", "*", "proxy.example", "192.0.2.7/28", "192.0.2.7/33", "0.0.0.0/0", "::/0", "unix:"]
)
def test_no_other_proxy_can_be_trusted(text):
    with pytest.raises(click.BadParameter):
        Proxy().convert(text, None, None)


@pytest.mark.parametrize("command", ["serve", "ingest"])
def test_each_server_takes_the_proxies_that_it_trusts(command):
    words = [command, "--trusted-proxy", "0.0.0.0/0"]
    found = CliRunner().invoke(import_module("orchestrator.cli").main, words)
    assert found.exit_code == 2 and "every address" in found.output


def test_no_proxy_variable_stands_between_the_orchestrator_and_a_switch(pki, monkeypatch):
    class Switch(gnmi_pb2_grpc.gNMIServicer):
        def Capabilities(self, request, context):
            return gnmi_pb2.CapabilityResponse(supported_models=[gnmi_pb2.ModelData(name="a-model")])

    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    server = grpc.server(ThreadPoolExecutor(1))
    gnmi_pb2_grpc.add_gNMIServicer_to_server(Switch(), server)
    pair = ((pki / "switch.key").read_bytes(), (pki / "switch.pem").read_bytes())
    port = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials([pair], (pki / "ca.pem").read_bytes(), require_client_auth=True)
    )
    server.start()
    try:
        files = (pki / "orchestrator.pem", pki / "orchestrator.key", pki / "ca.pem")
        session = Session(("127.0.0.1", port), files, None, connect_timeout_s=30)
        assert session.models == {"a-model"}
        session.close()
    finally:
        server.stop(0).wait(30)


def test_what_libraries_read_is_dropped_and_the_rest_stays():
    read = (
        "PGHOSTADDR",
        "PGSERVICE",
        "PGSSLMODE",
        "PGOPTIONS",
        "SSL_CERT_FILE",
        "SSLKEYLOGFILE",
        "HTTPS_PROXY",
        "no_proxy",
    )
    read += ("GRPC_SSL_CIPHER_SUITES", "GRPC_DNS_RESOLVER", "PROMETHEUS_MULTIPROC_DIR", "FASTAPI_OTEL_AUTO_CONFIGURE")
    kept = (
        "PATH",
        "HOME",
        "PGPASSWORD",
        "PGPASSFILE",
        "GRPC_TRACE",
        "PGP_KEY",
        "TZ",
        "QCLIMB_RUN",
        "OPENBLAS_NUM_THREADS",
    )
    environment = dict.fromkeys(read + kept, "a")
    assert drop_library_settings(environment) == sorted(read)
    assert set(environment) == set(kept)


def test_a_database_is_named_by_its_url_and_not_by_a_service_file():
    with pytest.raises(StoreError, match="names a service"):
        checked("postgresql:///q?service=prod")


def test_a_backup_goes_to_the_database_of_the_line_and_not_of_the_environment(tmp_path, postgres, monkeypatch):
    url = postgres.new()
    for name, value in {"PGHOSTADDR": "192.0.2.1", "PGSERVICE": "elsewhere", "PGOPTIONS": "-c nonsense=1"}.items():
        monkeypatch.setenv(name, value)
    found = CliRunner().invoke(
        import_module("orchestrator.cli").main, ["backup", "--database", url, str(tmp_path / "file")]
    )
    assert "no qclimb database" in found.output, found.output


@pytest.mark.parametrize("option", ["ssl_cert_reqs=none", "ssl_cert_reqs=optional", "ssl_check_hostname=false"])
def test_a_redis_elsewhere_is_known_by_its_certificate(option):
    with pytest.raises(StoreError, match="certificate"):
        opened(f"rediss://127.0.0.1:1/?{option}")


def test_no_answer_leads_to_the_address_that_a_client_names(admin):
    for path in ("/v1/hosts/", "/v1/hosts/h1/"):
        answer = admin.get(path, headers={"Host": "evil.example"}, follow_redirects=False)
        assert answer.status_code == 404 and "location" not in answer.headers


def test_what_serve_drops_stands_in_its_log(tmp_path):
    argv = [sys.executable, "-m", "orchestrator.cli", "serve", "--plain-loopback", "--listen", "127.0.0.1:0"]
    argv += ["--database", "nonsense", "--bootstrap-token-file", str(tmp_path / "token")]
    clean = {name: value for name, value in os.environ.items() if not DROPPED.fullmatch(name)}
    environment = {**clean, "PGSERVICE": "elsewhere", "FORWARDED_ALLOW_IPS": "*", "PGPASSWORD": "secret"}
    found = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert found.returncode == 2, found.stderr
    assert "event=ignored names=FORWARDED_ALLOW_IPS,PGSERVICE\n" in found.stderr
