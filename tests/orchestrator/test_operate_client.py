"""How the operator's command line reaches an orchestrator, whatever is typed, set, or answered."""

import gzip
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from urllib.parse import quote

import click
import pytest
from click.testing import CliRunner, Result

from orchestrator.operate.rest import ANSWER_BYTES_MOST, EVENT_BYTES_MOST
from orchestrator.operate.revisions import BODY_BYTES_MOST
from orchestrator.rest.app import make_app
from tests.commands.test_help import COMMANDS

TOKEN = "qct_secret-of-the-operator"
ASKING = {
    name: command
    for name, command in COMMANDS.items()
    if name.startswith("qclimb.cli.") and "--token-file" in {word for each in command.params for word in each.opts}
}
ODD_NAMES = (
    "../switches/s1",
    "adam#2024",
    "a?b=c",
    "a/b",
    "a/../../x",
    "%2e%2e",
    "..",
    ".",
    "",
    " ",
    "\udcff",
    "a\x00b",
)
JSON = [("Content-Type", "application/json")]


class Answering:
    """A loopback HTTP server: keeps what was asked as (method, target, token), and answers all alike."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.status, self.headers, self.body = 200, JSON, b"{}"
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle_one_request(self) -> None:
                super().handle_one_request()
                self.close_connection = True

            def answer(self) -> None:
                outer.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(outer.status)
                for name, value in outer.headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(outer.body)

            do_GET = do_PUT = do_POST = do_DELETE = do_CONNECT = answer

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Answering]:
    found = Answering()
    yield found
    found.close()


def run(words: list[str], **environment: str | None) -> Result:
    clean = {name: None for name in os.environ if name.startswith("QCLIMB_")}
    return CliRunner().invoke(
        import_module("qclimb.cli").main, words, env={**clean, "QCLIMB_TOKEN": TOKEN, **environment}
    )


def is_refused(found: Result) -> bool:
    """With exit status 2 and one sentence: no traceback, no token."""
    said = [line for line in found.output.splitlines() if line.startswith("Error: ")]
    return (
        found.exit_code == 2
        and isinstance(found.exception, SystemExit)
        and len(said) == 1
        and TOKEN not in found.output
        and len(found.output) < 2500
    )


def words_of(name: str, text: str) -> list[str]:
    """A command's line, `text` for each argument that is free text."""
    words = name.split()[1:]
    for each in ASKING[name].params:
        if not isinstance(each, click.Argument) and not each.required:
            continue
        if isinstance(each.type, click.Choice):
            value = each.type.choices[0]
        elif isinstance(each.type, click.types.IntParamType | click.types.FloatParamType):
            value = "1"
        elif each.type.name == "SERVICE":
            value = f"{text}:accepts:80"
        else:
            value = text
        words += [each.opts[0], value] if isinstance(each, click.Option) else [value]
    return words


NAMING = [name for name in ASKING if "plain-name" in " ".join(words_of(name, "plain-name"))]


def test_commands_that_take_names_are_many():
    assert len(NAMING) > 10 and {"qclimb.cli.main host remove", "qclimb.cli.main length forget"} <= set(NAMING)


def test_every_command_asks_for_a_path_that_there_is(server, service):
    server.status, server.body = 422, b'{"detail": "refused"}'
    known = {
        (method.upper(), re.sub("{.*?}", "[^/]+", path))
        for path, methods in make_app(service).openapi()["paths"].items()
        for method in methods
    }
    for name in ASKING:
        server.asked.clear()
        found = run(words_of(name, "plain-name"), QCLIMB_URL=server.url)
        assert len(server.asked) == 1, (name, found.output)
        ((method, target, _),) = server.asked
        path = target.partition("?")[0]
        assert any(method == of and re.fullmatch(at, path) for of, at in known), (name, method, target)


@pytest.mark.parametrize("name", NAMING)
def test_a_name_stays_in_its_segment_of_the_path(server, name):
    server.status, server.body = 422, b'{"detail": "refused"}'

    def asked(text: str) -> tuple[Result, list[tuple[str, str]]]:
        server.asked.clear()
        found = run(words_of(name, text), QCLIMB_URL=server.url)
        return found, [request[:2] for request in server.asked]

    _, plain = asked("plain-name")
    assert len(plain) == 1
    ((method, target),) = plain
    for odd in ODD_NAMES:
        found, odd_requests = asked(odd)
        assert is_refused(found), (odd, found.output)
        if odd_requests:
            expected = target.replace("plain-name", quote(odd, safe=""))
            assert odd_requests == [(method, expected)], odd
            assert "/" not in odd or target.startswith("/v1/lengths/") or "plain-name" not in target, odd


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            " ",
            "127.0.0.1:8443",
            "h:8443",
            "https://",
            "https:///v1",
            "//h",
            "ftp://h",
            "https://h/v1",
            "https://h?a=b",
        ),
        *("https://h#a", "https://h:0", "https://h:65536", "https://h:x", "https://[::1", "https://[fe80::1%25eth0]"),
        *("https://adam:hidden@h", "https://hidden@h", "https://a b", "https://h\n", "https://\u00fc", "https://h\\@b"),
        *("https://\udcff", "http://192.0.2.1", "http://h", "http://127.1", "http://127.0.0.1.example", "http://[::2]"),
        *("https://" + "h" * 300, "https://[::ffff:h]", "https://a/..//b", "http://localhost@192.0.2.1"),
    ],
)
def test_an_odd_address_is_refused_in_a_sentence(url):
    found = run(["fabric", "show", "--url", url])
    assert is_refused(found), found.output
    assert "--url: " in found.output and "hidden" not in found.output


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"qct_secret\nqct_secret\n",
        b"qct_secret qct_secret",
        b"\xc3\xbcqct_secret",
        b"a\x00",
        b"\xff",
        b"a" * 5000,
    ],
)
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    for found in (
        run(["fabric", "show", "--token-file", str(file)], QCLIMB_TOKEN=None),
        run(["fabric", "show", "--token-file", str(tmp_path)]),
    ):
        assert is_refused(found), found.output
        assert "qct_secret" not in found.output and "Traceback" not in found.output
    if content.strip() and b"\x00" not in content:
        found = run(["fabric", "show"], QCLIMB_TOKEN=os.fsdecode(content))
        assert is_refused(found) and "qct_secret" not in found.output


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, [], b"<html>"),
        (200, JSON, b"\xff\xfe"),
        (200, JSON, b"[" * 100_000),
        (200, JSON, b'"text"'),
        (200, JSON, b"[1]"),
        (200, JSON, b"7"),
        (200, JSON, b"null"),
        (200, JSON, b""),
        (204, [], b""),
        (200, [("Content-Length", "1000")], b"{"),
        (200, [("Content-Encoding", "gzip")], b"not gzip"),
        (200, [("Transfer-Encoding", "chunked")], b"zz\r\n"),
        (200, [("Link", '</v1/hosts?after=a>; rel="next"')], b"[]"),
        (200, [("Link", '<http://[>; rel="next"')], b"[]"),
        (200, [("Link", '<http://192.0.2.1/v1/hosts>; rel="next"')], b"[]"),
        (302, [("Location", "/v1/elsewhere")], b""),
        (307, [("Location", "http://192.0.2.1/")], b""),
        (404, [("Content-Type", "text/html")], b"<html>"),
        (422, JSON, b'{"detail": {"a": [1]}}'),
        (422, JSON, b"[" * 100_000),
        (500, [("Content-Type", "text/html")], b"<html>" * 10_000),
        (503, JSON, b'{"detail": null}'),
    ],
)
def test_no_answer_of_a_server_is_a_traceback(server, status, headers, body):
    server.status, server.headers, server.body = status, headers, body
    for name in (
        "host list",
        "fabric audit",
        "token mine",
        "revision list",
        "rollout start 1 --watch",
        "rollout show 1",
    ):
        found = run(name.split(), QCLIMB_URL=server.url)
        assert found.exit_code in (0, 1, 2) and (found.exit_code == 0 or is_refused(found) or "--watch" in name), (
            found.output
        )
        assert found.exception is None or isinstance(found.exception, SystemExit), (name, found.exception)
    assert all(target.startswith("/v1/") and "elsewhere" not in target for _, target, _ in server.asked)
    if status >= 300:
        assert run(["host", "list"], QCLIMB_URL=server.url).exit_code == 2


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_unpacks_to_too_much_is_read_in_part(server, status):
    server.status, server.headers = status, [("Content-Encoding", "gzip")]
    server.body = gzip.compress(b" " * (ANSWER_BYTES_MOST + 1), 1)
    for words in ("host list", "rollout show 1 --watch"):
        found = run(words.split(), QCLIMB_URL=server.url)
        limit = ANSWER_BYTES_MOST if status == 500 or "--watch" not in words else EVENT_BYTES_MOST
        assert is_refused(found) and str(limit) in found.output, found.output


def test_an_event_that_does_not_end_is_refused(server):
    server.body = b"data: " + b"x" * (EVENT_BYTES_MOST + 65_536)
    found = run(["rollout", "show", "1", "--watch"], QCLIMB_URL=server.url)
    assert is_refused(found) and str(EVENT_BYTES_MOST) in found.output


def test_the_environment_names_no_proxy_and_no_ca(server, tmp_path):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login adam password secret")
    server.body = b"[]"
    odd = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"), "http://127.0.0.1:1")
    odd |= {"no_proxy": "", "SSL_CERT_FILE": "/no/such", "SSL_CERT_DIR": "/no/such", "NETRC": str(tmp_path / "netrc")}
    found = run(["token", "list"], QCLIMB_URL=server.url, **odd, SSLKEYLOGFILE=str(tmp_path / "keys"))
    assert found.exit_code == 0, found.output
    assert server.asked == [("GET", "/v1/tokens", f"Bearer {TOKEN}")]
    assert is_refused(
        run(["host", "list"], QCLIMB_URL="https://127.0.0.1:1", all_proxy="socks9://odd", SSL_CERT_FILE="/no")
    )
    assert not (tmp_path / "keys").exists()


def test_a_proxy_that_is_named_sees_the_address_and_not_the_token(server):
    server.status = 502
    assert is_refused(run(["host", "list", "--url", "https://orchestrator.example", "--proxy", server.url]))
    assert server.asked == [("CONNECT", "orchestrator.example:443", "")]
    for url, proxy in (
        (server.url, server.url),
        ("https://h", "socks5://h:1"),
        ("https://h", "http://a:b@h:1"),
        ("https://h", ""),
    ):
        found = run(["host", "list", "--url", url, "--proxy", proxy])
        assert is_refused(found) and "--proxy: " in found.output, found.output


@pytest.mark.parametrize("key", ["\u00fc", "a\nb", "\udcff", "a\x00"])
def test_a_key_that_no_header_can_carry_is_refused(server, key):
    assert is_refused(run(["rollout", "start", "1", "--key", key], QCLIMB_URL=server.url))
    assert server.asked == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[1]",
        b"7",
        b'{"load": NaN}',
        b'{"label": "\\udcff"}',
        b"\xff",
        b"[" * 100_000,
        b" " * BODY_BYTES_MOST + b"{}",
    ],
)
def test_a_body_that_no_request_can_carry_is_refused(server, tmp_path, content):
    (tmp_path / "body").write_bytes(content)
    assert is_refused(run(["revision", "make", "--body", str(tmp_path / "body")], QCLIMB_URL=server.url))
    assert server.asked == []
