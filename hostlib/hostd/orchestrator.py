"""The orchestrator's REST as hostd needs it: one kept HTTPS connection, bounded answers, one sentence on failure.

http.client and not httpx: 7 MiB and 20 ms to import against 19 MiB and 110 ms, and there is one hostd a host. It
follows no redirect and no proxy variable, so the token goes to the named address only.
"""

import contextlib
import http.client
import json
import os
import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from qclimb.delivery import MEDIA_TYPE, encode_delivery
from qclimb.errors import EndpointError, LengthError
from qclimb.lengths import Announced, Service, by_service
from qclimb.record_rows import Rows, to_records
from qclimb.rest import TOKEN_READ_BYTES, Origin, build_path, client_tls, parse_token
from qclimb.text import printable

from hostlib.hostd.errors import FleetError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
TIMEOUT_S = 5.0
STRETCH_MOST_S = 3600.0
POLICY_BYTES_MAX = 1 << 16
MODEL_BYTES_MAX = 64 << 20
LENGTHS_BYTES_MAX = 1 << 20
#: An answer that says why something was refused is read up to here.
REASON_BYTES_MAX = 4096
#: OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
CLOCK_MAY_BE_WRONG = (9, 10)


@dataclass(frozen=True)
class Answer:
    """What came back: `content` is at most as long as was asked for."""

    status: int
    etag: str | None
    content: bytes
    accept_post: str = ""


@dataclass(frozen=True)
class Wanted:
    """What the answer to a delivery says of the next ones.

    records      how many the next one may hold; None: nothing was said of it
    policy_etag  of the policy in force, so that it need not be asked for; None: an older orchestrator, or none yet
    stretch_s    from one look at TCP's round-trip times to the next; 0: they are not taken
    """

    records: int | None = None
    policy_etag: str | None = None
    stretch_s: float = 0.0

    @classmethod
    def of(cls, content: bytes) -> "Wanted":
        """From an answer's JSON; what is not as it should be was not said."""
        try:
            found = json.loads(content)
            records, etag, stretch_s = (found.get(name) for name in ("next_records", "policy_etag", "stretch_s"))
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()
        return cls(
            records if type(records) is int and records > 0 else None,
            etag if isinstance(etag, str) else None,
            float(stretch_s) if type(stretch_s) in (int, float) and 0 < stretch_s < STRETCH_MOST_S else 0.0,
        )


class Away(FleetError):
    """The orchestrator could not be asked."""


class Refused(FleetError):
    """The orchestrator answered, and the answer is no. `retry_after_s`: when to ask again; 0: not said."""

    def __init__(self, sentence: str, status: int, retry_after_s: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s


class Orchestrator:
    """One host's door to the orchestrator at `url`.

    `url`: https://ADDRESS[:PORT]; http:// only to a loopback address, for a bearer token crosses no wire in the clear.
    `ca`: the certificates to trust; None trusts the system's.
    `token_file`: read anew for each connection and after a 401, so that a token can be replaced under a running hostd.

    Raises:
        FleetError: the address, the certificates or the token file can't be used.
    """

    def __init__(
        self, url: str, name: str, token_file: Path, ca: Path | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        try:
            self._origin = Origin.parse(url)
        except EndpointError as error:
            raise FleetError(f"orchestrator: {error}") from error
        if not NAME.fullmatch(name):
            raise FleetError(f"name {name!r}; expected a name of letters, digits, '.', '_' and '-'")
        self.url = self._origin.url
        self._name = name
        self._token_file = token_file
        self._token = read_token(token_file)
        self._timeout_s = timeout_s
        self._tls: ssl.SSLContext | None = None
        if self._origin.scheme == "https":
            try:
                self._tls = client_tls(ca)
            except OSError as error:
                raise FleetError(f"certificates {ca}: {error}; expected PEM certificates") from error
        self._kept: http.client.HTTPConnection | None = None
        self.peer: tuple[IPv4Address | IPv6Address, int] | None = None
        """Address and port of the last connection; None before any."""
        self._takes_rows = False

    def policy(self, known_etag: str | None) -> Answer:
        """The host's policy; status 304 when `known_etag` still is it, 404 when this host was given none yet."""
        headers = {} if known_etag is None else {"If-None-Match": known_etag}
        return self._ask(
            "GET", build_path("hosts", self._name, "policy"), headers, limit=POLICY_BYTES_MAX, also_fine=(304, 404)
        )

    def forest(self, generation: int) -> bytes:
        """The model as the host file that shims read."""
        return self._ask("GET", build_path("models", generation, "forest"), {}, limit=MODEL_BYTES_MAX).content

    def deliver(self, told: dict[str, Any], rows: Rows, key: str | None) -> Wanted:
        """Hands records over, with the heartbeat that names the applied generation. A repeated key adds nothing.

        As the records lie where the last answer said that this is taken, else as JSON.
        """
        answer = None
        if self._takes_rows:
            try:
                answer = self._post(encode_delivery(told, rows), MEDIA_TYPE, key)
            except Refused as error:
                if error.status not in (415, 422):
                    raise
        if answer is None:  # an older one may have taken its place; it is asked in the words that all understand
            records = [record.to_json() for record in to_records(rows)]
            content = json.dumps({**told, "records": records}, separators=(",", ":")).encode()
            answer = self._post(content, "application/json", key)
        self._takes_rows = MEDIA_TYPE in answer.accept_post
        return Wanted.of(answer.content)

    def _post(self, content: bytes, kind: str, key: str | None) -> Answer:
        headers = {"Content-Type": kind} | ({} if key is None else {"Idempotency-Key": key})
        return self._ask("POST", build_path("hosts", self._name, "records"), headers, content, limit=REASON_BYTES_MAX)

    def share_lengths(self, found: list[Announced]) -> dict[Service, Announced] | None:
        """Tells what this host has learned of announced lengths; what the fabric knows, None: no such thing."""
        content = json.dumps({"lengths": [each.to_json() for each in found]}, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        answer = self._ask(
            *("POST", build_path("hosts", self._name, "lengths"), headers, content),
            limit=LENGTHS_BYTES_MAX,
            also_fine=(404, 405),
        )
        if answer.status >= 300:
            return None
        try:
            return by_service(json.loads(answer.content)["lengths"], Announced.from_kept)
        except (ValueError, TypeError, KeyError, RecursionError, LengthError) as error:
            raise FleetError(f"lengths from the orchestrator: {error}; kept what this host knows") from error

    def close(self) -> None:
        """Ends the kept connection."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def _ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None = None,
        *,
        limit: int,
        also_fine: tuple[int, ...] = (),
    ) -> Answer:
        reused = self._kept is not None
        try:
            return self._exchange(method, path, headers, body, limit, also_fine)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError, ssl.SSLEOFError) as error:
            # A server may close an idle connection at any time; only then is a second try at once worth it.
            if not reused:
                raise self._away(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from error
        try:
            return self._exchange(method, path, headers, body, limit, also_fine)
        except (OSError, http.client.HTTPException) as error:
            raise self._away(error) from error

    def _exchange(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        limit: int,
        also_fine: tuple[int, ...],
    ) -> Answer:
        done = False
        try:
            connection = self._connection()
            connection.request(method, path, body, {**headers, "Authorization": f"Bearer {self._token}"})
            response = connection.getresponse()
            content = response.read(limit + 1)
            done = response.isclosed() and not response.will_close
        finally:
            if not done:  # an unread rest would be taken for the next answer
                self.close()
        if response.status >= 300 and response.status not in also_fine:
            if response.status == 401:
                with contextlib.suppress(FleetError):
                    self._token = read_token(self._token_file)
            raise Refused(
                f"{method} {self.url}{path}: {response.status} {_reason(response.reason, content)}",
                response.status,
                _seconds(response.headers.get("Retry-After")),
            )
        if len(content) > limit:
            raise FleetError(f"{method} {self.url}{path}: more than {limit} bytes; expected fewer")
        return Answer(response.status, response.headers.get("ETag"), content, response.headers.get("Accept-Post") or "")

    def _connection(self) -> http.client.HTTPConnection:
        if self._kept is None:
            self._token = read_token(self._token_file)
            host, port = self._origin.host, self._origin.port
            if self._tls is None:
                self._kept = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
            else:
                self._kept = http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
            self._kept.connect()
            address, port = self._kept.sock.getpeername()[:2]
            self.peer = (ip_address(address.partition("%")[0]), port)
        return self._kept

    def _away(self, error: Exception) -> Away:
        clock = ""
        if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in CLOCK_MAY_BE_WRONG:
            clock = f" by this host's clock, which says {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        return Away(f"orchestrator {self.url}: {str(error) or type(error).__name__}{clock}; trying again")


def read_token(file: Path) -> str:
    """The bearer token in a file that nobody but its owner may read; the token itself never appears in a message.

    Raises:
        FleetError: no such file, others may read it, or it holds no token.
    """
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode & 0o777
            content = opened.read(TOKEN_READ_BYTES)
    except OSError as error:
        raise FleetError(f"token file {file}: {error.strerror}; expected a file of mode 0600 with the token") from error
    if mode & 0o077:
        raise FleetError(f"token file {file} has mode {mode:04o}; expected 0600: a token is for its owner only")
    try:
        return parse_token(content)
    except EndpointError as error:
        raise FleetError(f"token file {file}: {error}") from error


def _seconds(retry_after: str | None) -> int:
    """A Retry-After in seconds (RFC 9110, section 10.2.3); 0 for none, and for a date: two clocks may differ."""
    return int(retry_after) if retry_after and re.fullmatch("[0-9]{1,6}", retry_after) else 0


def _reason(phrase: str, content: bytes) -> str:
    """The refusal in the orchestrator's words, cut to one line."""
    text = content[:REASON_BYTES_MAX].decode(errors="replace")
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        detail = json.loads(text).get("detail")
        text = detail if isinstance(detail, str) else json.dumps(detail)
    return printable(" ".join((text or phrase).split())[:300])
