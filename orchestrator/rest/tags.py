"""ETags (RFC 9110, section 8.8): what has not changed is not sent again, what has changed is not overwritten.

Each JSON answer to a GET has one. PUT and DELETE of a switch or of the recording take it as If-Match (412 where it is
stale), and so does the start of a rollout: the ETag of the policy in force.
"""

import hashlib
import json
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

from fastapi import Header
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .bodies import Text

IfMatch = Annotated[
    Text | None, Header(alias="If-Match", max_length=1_000, description="do it only where this is its ETag now")
]


def etag_of(value: Any) -> str:
    """Of a value that REST answers."""
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    return _quoted(json.dumps(plain, sort_keys=True, default=str).encode())


def _quoted(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:24]}"'


def check_match(asked: str | None, now: str | None, of: str) -> None:
    """That `asked` has the ETag of what is there now (None: nothing is); 412 else."""
    if asked is None:
        return
    tags = [part.strip() for part in asked.split(",")]
    if now is None or ("*" not in tags and now not in tags):
        raise HTTPException(412, f"If-Match is {asked}, {of} has {now or 'none'} now: read it again")


class Tagged:
    """Gives JSON that a GET is answered its ETag, and 304 to who has it. Streams, and longer answers, pass."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        asked = dict(scope["headers"]).get(b"if-none-match", b"").decode("latin-1")
        begun: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                headers = dict(message["headers"])
                is_json = headers.get(b"content-type", b"").startswith(b"application/json")
                if message["status"] == 200 and is_json:
                    begun = message
                    return
            elif begun is not None:
                start, begun = begun, None
                if not message.get("more_body", False):
                    start, message = _answered(start, message, asked)
                await send(start)
            await send(message)

        await self.app(scope, receive, tagged)


def _answered(start: Message, body: Message, asked: str) -> tuple[Message, Message]:
    headers = list(start["headers"])
    tag = next((value for name, value in headers if name == b"etag"), None)
    if tag is None:
        tag = _quoted(body.get("body", b"")).encode()
        headers.append((b"etag", tag))
    if tag.decode() in (part.strip().removeprefix("W/") for part in asked.split(",")):
        kept = [(name, value) for name, value in headers if name not in (b"content-length", b"content-type")]
        return {**start, "status": 304, "headers": kept}, {**body, "body": b""}
    return {**start, "headers": headers}, body
