"""Takes connections: where there are too many, the one that has been silent for longest makes room for the next.

A connection counts from the moment the kernel hands it over, before TLS: who makes no handshake holds an open file too.
"""

import asyncio
import itertools
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

HANDSHAKE_S = 5.0
"""For TLS's."""
FILES_MOST = 65_536
FILES_APART = 128
"""Of the files that the process may have open: not for connections."""
AT_ONCE = 16
"""Taken in one turn of the loop: what is closed for them is closed by the next turns."""
NO_FILES_PAUSE_S = 0.1
turns = itertools.count()
"""Who waits for longer: the loop's clock stands still for all that it does at once."""


def connections_most() -> int:
    """Raises the limit of open files as far as it goes; what is left of it for connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MOST if hard == resource.RLIM_INFINITY else min(hard, FILES_MOST)
    if wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted, soft) - FILES_APART


class Door:
    """The listening socket. `protocol` makes a connection's; `open_now` counts those whose handshake is done.

    `oldest` gives, of these, the turn and the end of the one that has been silent for longest, None where none is.
    uvicorn closes it as it closes an asyncio.Server.
    """

    def __init__(
        self,
        listening: socket.socket,
        tls: ssl.SSLContext | None,
        protocol: Callable[[], asyncio.Protocol],
        open_now: Callable[[], int],
        oldest: Callable[[], tuple[int, Callable[[], None]] | None],
    ) -> None:
        self.sockets = (listening,)
        self._listening, self._tls, self._protocol = listening, tls, protocol
        self._open_now, self._oldest = open_now, oldest
        self._handshakes: dict[asyncio.Task[None], int] = {}
        """in the order in which they came, with their turns"""
        self._most = connections_most()
        self._loop = asyncio.get_running_loop()

    def open(self, backlog: int) -> None:
        """Takes connections from now on."""
        self._listening.setblocking(False)
        self._listening.listen(backlog)
        self._loop.add_reader(self._listening.fileno(), self._take)
        log.info("door connections_most=%d", self._most)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it runs in."""
        return self._loop

    def close(self) -> None:
        """Takes none any more; those in their handshake end."""
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Until the handshakes have ended."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _take(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no more files: whatever else holds them
                log.warning("door event=no-room error=%r", str(error))
                self._make_room()
                self._loop.remove_reader(self._listening.fileno())
                self._loop.call_later(NO_FILES_PAUSE_S, self._go_on)
                return
            if len(self._handshakes) + self._open_now() >= self._most:
                self._make_room()
            connection.setblocking(False)
            task = self._loop.create_task(self._shake_hands(connection))
            self._handshakes[task] = next(turns)
            task.add_done_callback(self._handshakes.pop)

    def _go_on(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening.fileno(), self._take)

    async def _shake_hands(self, connection: socket.socket) -> None:
        limit_s = HANDSHAKE_S if self._tls else None
        try:
            with suppress(OSError):  # TLS's errors and time-outs too: nobody is there to be told
                await self._loop.connect_accepted_socket(
                    self._protocol, connection, ssl=self._tls, ssl_handshake_timeout=limit_s
                )
        except BaseException:
            connection.close()
            raise

    def _make_room(self) -> None:
        handshake = next((each for each in self._handshakes.items() if not each[0].cancelling()), None)
        silent = self._oldest()
        if handshake and (silent is None or handshake[1] < silent[0]):
            handshake[0].cancel()
        elif silent:
            silent[1]()
