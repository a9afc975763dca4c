"""How a client reaches the orchestrator's REST: its address, paths made of names, the token, and whom TLS trusts.

One set of rules for the operator's command line, hostd and the lab. None of them is taken from the environment: no
proxy, no CA, no place for TLS's keys.
"""

import re
import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

from .errors import EndpointError
from .lengths import Service

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")
NETLOC = re.compile(r"(\[[^\[\]]+\]|[^\[\]]*)(:[0-9]*)?")
"""Nothing stands beside an address in brackets: parsers differ on what that would mean."""
DEFAULT_PORT = {"http": 80, "https": 443}
TOKEN_BYTES_MAX = 4096
TOKEN_READ_BYTES = TOKEN_BYTES_MAX + 3
"""of a file: with the end of its line, and enough to see that there is more"""
SHOWN_MOST = 100
"""characters of what was given that a sentence repeats"""


@dataclass(frozen=True)
class Origin:
    """Where REST is: `scheme` is https, or http to a loopback address; `host` a name, or an address without []."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> "Origin":
        """Of https://HOST[:PORT]. A token crosses no wire in the clear, so http:// goes to loopback addresses alone.

        Raises:
            EndpointError: another scheme, a path, credentials, a zone, or a port out of range.
        """
        found = parse_address(url, ("https", "http"))
        if found.scheme == "http" and not is_loopback(found.host):
            raise EndpointError(f"{url!r} is without TLS, expected https:// (http:// goes to loopback addresses only)")
        return found

    @property
    def url(self) -> str:
        """Of these three alone, so that no two parsers differ on it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_address(url: str, schemes: tuple[str, ...]) -> Origin:
    """The parts of SCHEME://HOST[:PORT], and nothing beside them; EndpointError where there is more or less."""
    example = f"expected {schemes[0]}://ADDRESS:PORT"
    if "@" in url:  # not repeated: a password may stand there
        raise EndpointError(f"the address has a user or a password in it, {example}")
    shown = repr(url if len(url) <= SHOWN_MOST else f"{url[:SHOWN_MOST]}...")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise EndpointError(f"{shown}: {error}, {example}") from None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    is_plain = is_plain and NETLOC.fullmatch(parts.netloc) is not None
    if not is_plain or parts.scheme not in schemes or parts.path.strip("/") or "?" in url or "#" in url:
        raise EndpointError(f"{shown}: {example}")
    if "%" in host:
        raise EndpointError(f"{shown} has a zone, expected an address without one")
    if not (HOST.fullmatch(host) or ("[" in parts.netloc and _is_address(host))):
        raise EndpointError(f"{shown} names no host, {example}")
    if port == 0:
        raise EndpointError(f"{shown} has port 0, expected 1..65535")
    return Origin(parts.scheme, host, port or DEFAULT_PORT[parts.scheme])


def is_loopback(host: str) -> bool:
    """A loopback address, or the name localhost."""
    return host == "localhost" or (_is_address(host) and ip_address(host).is_loopback)


def build_path(*segments: str | int | Service) -> str:
    """`/v1/...` of these segments, each quoted whole: what a name holds stays in its own.

    Raises:
        EndpointError: a name that can't be carried: empty, a dot segment (RFC 3986, section 5.2.4), or with a slash,
            which servers and proxies read as two segments, quoted or not.
    """
    return "/".join(["/v1", *map(_quoted, segments)])


def _quoted(segment: str | int | Service) -> str:
    name = segment.name if isinstance(segment, Service) else str(segment)
    if name in ("", ".", "..") or ("/" in name and not isinstance(segment, Service)):
        raise EndpointError(f"the name is {name!r}, expected one that is not empty, . or .. and has no /")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise EndpointError(f"the name is {name!r}, expected text that UTF-8 can hold") from None


def parse_token(content: bytes) -> str:
    """The bearer token that a file or a variable holds: one line of printable ASCII, which no message repeats.

    Raises: EndpointError.
    """
    token = content.strip()
    if not 0 < len(token) <= TOKEN_BYTES_MAX or not all(0x21 <= byte <= 0x7E for byte in token):
        raise EndpointError(
            f"no token in it, expected one line of at most {TOKEN_BYTES_MAX} printable ASCII characters"
        )
    return token.decode("ascii")


def client_tls(ca: Path | None) -> ssl.SSLContext:
    """TLS that checks a server's name and certificate: against `ca`, or the system's CAs.

    Unlike `ssl.create_default_context` it takes neither CAs (SSL_CERT_FILE, SSL_CERT_DIR) nor a place for the
    session's keys (SSLKEYLOGFILE) from the environment.

    Raises:
        OSError: `ca` can't be read, or holds no certificate (ssl.SSLError is one).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca is not None:
        context.load_verify_locations(cafile=ca)
        return context
    system = ssl.get_default_verify_paths()
    for kind, place in (("cafile", system.openssl_cafile), ("capath", system.openssl_capath)):
        if Path(place).exists():
            context.load_verify_locations(**{kind: place})
    return context


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
