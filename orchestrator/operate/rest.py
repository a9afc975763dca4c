"""An orchestrator, as a command line asks it: JSON in, JSON out, a refusal is one sentence and exit status 2."""

import json
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click
from qclimb.options import Refused

TIMEOUT_S = 30.0
TRAINING_S = 900.0
"""A model takes minutes."""
Json = dict[str, Any]


class Rest:
    """One orchestrator, and one token."""

    def __init__(self, url: str, token: str, ca: Path | None) -> None:
        """Raises Refused where the CA can't be read."""
        import httpx  # a tenth of a second, only where something is asked

        try:
            verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca) if ca else True
        except (OSError, ssl.SSLError) as error:
            raise Refused(f"--ca {ca}: {error}, expected a PEM file with a CA's certificate") from None
        self.url, self._errors = url, httpx.HTTPError
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, verify=verify, timeout=TIMEOUT_S)

    def ask(self, method: str, path: str, body: Json | None = None, key: str | None = None, **params: Any) -> Any:
        """The answer's JSON, None where it has none; of a list in pages all of them. `key`: an Idempotency-Key."""
        headers = {} if key is None else {"Idempotency-Key": key}
        given = {name: value for name, value in params.items() if value is not None}
        with self._said(method, path):
            timeout = TRAINING_S if (method, path) == ("POST", "/v1/models") else TIMEOUT_S
            answer = self._http.request(method, path, json=body, params=given, headers=headers, timeout=timeout)
            found = self._read(answer)
            while "next" in answer.links:
                answer = self._http.get(answer.links["next"]["url"])
                found += self._read(answer)
            return found

    def events(self, path: str) -> Iterator[Json]:
        """The data of server-sent events, until the stream ends."""
        import httpx

        with (
            self._said("GET", path),
            self._http.stream("GET", path, timeout=httpx.Timeout(TIMEOUT_S, read=60)) as answer,
        ):
            if answer.is_error:
                answer.read()
                self._read(answer)
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

    def _read(self, answer: Any) -> Any:
        if answer.is_error:
            try:
                reason = answer.json()["detail"]
            except (ValueError, KeyError, TypeError):
                reason = f"status {answer.status_code}, expected an orchestrator's answer"
            raise Refused(str(reason))
        return answer.json() if answer.content else None

    @contextmanager
    def _said(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise Refused(f"{self.url}: {method} {path}: {error or type(error).__name__}") from None


def _token(file: Path | None) -> str:
    found = os.environ.get("QCLIMB_TOKEN")
    if file is not None:
        try:
            found = file.read_text(encoding="ascii")
        except (OSError, ValueError) as error:
            raise Refused(f"--token-file {file}: {error}, expected a file with a token") from None
    if not (found or "").strip():
        raise click.UsageError("no token: expected --token-file, QCLIMB_TOKEN_FILE or QCLIMB_TOKEN")
    return str(found).strip()


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an orchestrator as its first argument, and what it needs to be reached as options."""

    def asking(url: str, token_file: Path | None, ca: Path | None, **given: Any) -> None:
        command(Rest(url, _token(token_file), ca), **given)

    path = click.Path(dir_okay=False, path_type=Path)
    found = update_wrapper(asking, command)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="The answer as it came, for programs."),
        click.option("--ca", type=path, envvar="QCLIMB_CA", help="Of the orchestrator's certificate. [env: QCLIMB_CA]"),
        click.option(
            "--token-file",
            type=path,
            envvar="QCLIMB_TOKEN_FILE",
            help="Holds your token; or QCLIMB_TOKEN is it. [env: QCLIMB_TOKEN_FILE]",
        ),
        click.option(
            "--url",
            envvar="QCLIMB_URL",
            default="http://127.0.0.1:8080",
            show_default=True,
            help="The orchestrator. [env: QCLIMB_URL]",
        ),
    ):
        found = option(found)
    return found
