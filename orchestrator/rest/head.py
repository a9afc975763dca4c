"""HEAD at every path that takes GET: the same answer without its body (RFC 9110, 9.3.2)."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Head:
    """Stands before an application, which sees a GET. Plain ASGI."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or whatever else the server has to say."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        is_answered = False

        async def send_head(message: Message) -> None:
            nonlocal is_answered
            if message["type"] != "http.response.body":
                await send(message)
            elif not is_answered:
                is_answered = True
                await send({"type": "http.response.body"})
                if message.get("more_body", False):
                    rest.cancel()  # of a stream

        with anyio.CancelScope() as rest:
            await self.app({**scope, "method": "GET"}, receive, send_head)
