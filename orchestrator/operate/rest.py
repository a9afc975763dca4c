"""An orchestrator, as a command line asks it: JSON in, JSON out, a refusal is one sentence and exit status 2.

The rules of `qclimb.rest` hold: a path is made of segments, and the environment gives neither a proxy nor a CA. A
redirect is not followed, nor a link to elsewhere: the token goes to the named address alone.
"""

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click
from qclimb.errors import EndpointError
from qclimb.lengths import Service
from qclimb.options import Refused
from qclimb.rest import TOKEN_READ_BYTES, Origin, build_path, client_tls, parse_address, parse_token

TIMEOUT_S = 30.0
TRAINING_S = 900.0
"""A model takes minutes."""
ANSWER_BYTES_MOST = 64 << 20
"""of one answer, unpacked: 20,000 hosts are some 2 MiB"""
EVENT_BYTES_MOST = 8 << 20
PAGES_MOST = 10_000
REASON_MOST = 1000
"""characters of a refusal that are shown"""
NOT_AS_EXPECTED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, OSError)
"""What a command raises on JSON of another shape; of OSError a time that no calendar has (EOVERFLOW)."""
Json = dict[str, Any]


class Rest:
    """One orchestrator, and one token."""

    def __init__(self, origin: Origin, token: str, ca: Path | None, proxy: str | None = None) -> None:
        """Raises OSError where the CA can't be read."""
        import httpx  # a tenth of a second, only where something is asked

        self.url, self.has_answered = origin.url, False
        self._errors = (httpx.HTTPError, httpx.InvalidURL, ValueError)  # the last: no JSON, no UTF-8
        self._http = httpx.Client(
            base_url=origin.url,
            headers={"Authorization": f"Bearer {token}"},
            verify=client_tls(ca) if ca or origin.scheme == "https" else False,
            timeout=TIMEOUT_S,
            trust_env=False,
            follow_redirects=False,
            proxy=proxy,
        )

    def ask(
        self,
        method: str,
        *segments: str | int | Service,
        body: Json | None = None,
        key: str | None = None,
        **params: Any,
    ) -> Any:
        """The answer's JSON, None where it has none; of a list in pages all of them.

        `segments`: of the path below /v1, each quoted. `key`: an Idempotency-Key.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        given = {name: value for name, value in params.items() if value is not None}
        asked = build_path(*segments)
        with self._refused(method, asked):
            timeout = TRAINING_S if (method, segments) == ("POST", ("models",)) else TIMEOUT_S
            answer = self._send(method, asked, json=body, params=given, headers=headers, timeout=timeout)
            found, read = self._read(answer), {asked}
            while "next" in answer.links:
                following = self._following(answer, asked)
                if following in read:
                    raise Refused(f"{self.url}: {method} {asked}: its pages go in a circle, expected a last one")
                if len(read) >= PAGES_MOST:
                    raise Refused(f"{self.url}: {method} {asked}: has more than {PAGES_MOST} pages, expected fewer")
                read.add(following)
                answer = self._send("GET", following)
                found += self._read(answer)
            return found

    def events(self, *segments: str | int | Service) -> Iterator[Json]:
        """The data of server-sent events, until the stream ends."""
        import httpx

        asked = build_path(*segments)
        with (
            self._refused("GET", asked),
            self._http.stream("GET", asked, timeout=httpx.Timeout(TIMEOUT_S, read=60)) as answer,
        ):
            if not answer.is_success:
                self._read(_whole(answer))
            self.has_answered = True
            rest = b""
            for part in answer.iter_bytes():
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) > EVENT_BYTES_MOST:
                    raise ValueError(f"an event has more than {EVENT_BYTES_MOST} bytes, expected fewer")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield json.loads(line.removeprefix(b"data: "))

    def _send(self, method: str, path: str, **of: Any) -> Any:
        """A whole answer."""
        with self._http.stream(method, path, **of) as answer:
            return _whole(answer)

    def _read(self, answer: Any) -> Any:
        self.has_answered = True
        if not answer.is_success:
            try:
                reason = answer.json()["detail"]
            except (ValueError, LookupError, TypeError, RecursionError):
                reason = f"{self.url}: status {answer.status_code}, expected an orchestrator's answer"
            raise Refused(" ".join(str(reason).split())[:REASON_MOST])
        return answer.json() if answer.content else None

    def _following(self, answer: Any, asked: str) -> str:
        """The next page's path and query, which stand at the same address: the token goes nowhere else."""
        following = answer.url.join(answer.links["next"].get("url", ""))
        if (following.scheme, following.netloc) != (answer.url.scheme, answer.url.netloc):
            raise Refused(f"{self.url}: GET {asked}: its next page is at {following.host}, expected one of its own")
        return str(following.raw_path.decode("ascii"))

    @contextmanager
    def _refused(self, method: str, asked: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise Refused(f"{self.url}: {method} {asked}: {error or type(error).__name__}") from None


def _whole(answer: Any) -> Any:
    """The same answer, of which all is read, unpacked; ValueError where that is too much."""
    import httpx

    content = bytearray()
    for part in answer.iter_bytes():
        content += part
        if len(content) > ANSWER_BYTES_MOST:
            raise ValueError(f"the answer has more than {ANSWER_BYTES_MOST} bytes, expected fewer")
    links = [(name, value) for name, value in answer.headers.multi_items() if name == "link"]
    return httpx.Response(answer.status_code, headers=links, content=bytes(content), request=answer.request)


def _token(file: Path | None) -> str:
    try:
        if file is not None:
            with file.open("rb") as opened:
                return parse_token(opened.read(TOKEN_READ_BYTES))
        if given := os.environb.get(b"QCLIMB_TOKEN"):
            return parse_token(given)
    except OSError as error:
        raise Refused(f"--token-file {file}: {error.strerror}, expected a file with a token") from None
    except EndpointError as error:
        raise Refused(f"{'QCLIMB_TOKEN' if file is None else f'--token-file {file}'}: {error}") from None
    raise click.UsageError("no token: expected --token-file, QCLIMB_TOKEN_FILE or QCLIMB_TOKEN")


def _rest(url: str, token_file: Path | None, ca: Path | None, proxy: str | None) -> Rest:
    option = "--url"
    try:
        origin = Origin.parse(url)
        if proxy is not None:
            option = "--proxy"
            proxy = parse_address(proxy, ("http",)).url
            if origin.scheme != "https":  # the proxy would read the token
                raise EndpointError(f"goes with an https:// address alone, and --url is {url!r}")
    except EndpointError as error:
        raise Refused(f"{option}: {error}") from None
    token = _token(token_file)
    try:
        return Rest(origin, token, ca, proxy)
    except OSError as error:
        raise Refused(f"--ca {ca}: {error}, expected a PEM file with a CA's certificate") from None


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an orchestrator as its first argument, and what it needs to be reached as options."""

    def asking(url: str, token_file: Path | None, ca: Path | None, proxy: str | None, **given: Any) -> None:
        rest = _rest(url, token_file, ca, proxy)
        try:
            command(rest, **given)
        except EndpointError as error:
            raise Refused(str(error)) from None
        except NOT_AS_EXPECTED as error:
            if not rest.has_answered or (isinstance(error, OSError) and error.errno != errno.EOVERFLOW):
                raise
            reason = f"{type(error).__name__}: {error}"[:REASON_MOST]
            raise Refused(f"{rest.url}: its answer is none of this version's orchestrator ({reason})") from None

    file = click.Path(dir_okay=False, path_type=Path)
    found = update_wrapper(asking, command)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The answer as it came, for programs."),
        click.option(
            "--proxy",
            envvar="QCLIMB_PROXY",
            metavar="http://HOST:PORT",
            help="Reach an https:// address through this proxy, default: none. [env: QCLIMB_PROXY]",
        ),
        click.option("--ca", type=file, envvar="QCLIMB_CA", help="Of the orchestrator's certificate. [env: QCLIMB_CA]"),
        click.option(
            "--token-file",
            type=file,
            envvar="QCLIMB_TOKEN_FILE",
            help="Holds your token; or QCLIMB_TOKEN is it. [env: QCLIMB_TOKEN_FILE]",
        ),
        click.option(
            "--url",
            envvar="QCLIMB_URL",
            default="http://127.0.0.1:8080",
            show_default=True,
            help="The orchestrator: https://HOST:PORT, or http:// to a loopback address. [env: QCLIMB_URL]",
        ),
    ):
        found = option(found)
    return found
