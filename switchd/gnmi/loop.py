"""The one asyncio loop of all gNMI servers of this process, and the threads for what would hold it up.

The daemon follows redis in its main thread and calls in here; whatever waits for redis or computes for long runs in a
thread, so that one request never keeps the streams of others waiting. Sets have a thread of their own: they are done
one after the other anyhow, and Gets need not wait behind them. What is short and many wait for (who is calling, what
a subscription asks for, a snapshot) has two, so that it waits behind no Get.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from qclimb.loops import service_thread

READERS = 8
"""threads for Gets, and for what else takes long"""
LOOKERS = 2
CLOSE_S = 3.0
"""how long the end waits for what threads are at"""
Result = TypeVar("Result")


class Loop:
    """A running loop. Its coroutines are the only ones who touch what belongs to them: none of it needs a lock."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="gnmi-reader")
        self._lookers = ThreadPoolExecutor(LOOKERS, thread_name_prefix="gnmi-looker")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="gnmi-writer")
        self._thread = service_thread("gnmi", self._loop.run_forever)
        self._thread.start()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there from another thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def tell(self, act: Callable[[], object]) -> None:
        """Call `act` there soon; nothing where the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act)

    async def read(self, act: Callable[[], Result]) -> Result:
        """What `act` answers, from a thread. Who no longer waits for it is not told, but it goes on."""
        return await self._loop.run_in_executor(self._readers, act)

    async def look(self, act: Callable[[], Result]) -> Result:
        """The same for what is short, behind nothing that is long."""
        return await self._loop.run_in_executor(self._lookers, act)

    async def write(self, act: Callable[[], Result]) -> Result:
        """The same, one after the other."""
        return await self._loop.run_in_executor(self._writer, act)

    def close(self) -> None:
        """End it; its servers have been stopped. What waits for a thread is not begun any more."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        waiting = threading.Thread(target=self._end_threads, name="gnmi-end", daemon=True)
        waiting.start()
        waiting.join(CLOSE_S)

    def _end_threads(self) -> None:
        pools = (self._writer, self._readers, self._lookers)
        for threads in pools:
            threads.shutdown(wait=False, cancel_futures=True)
        for threads in pools:
            threads.shutdown(wait=True)
