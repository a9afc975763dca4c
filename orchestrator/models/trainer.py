"""Trains in a process of its own that ends afterwards: scikit-learn's memory goes with it, REST keeps answering."""

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from qclimb.record_rows import Rows

from ..errors import ConflictError, TrainingError

if TYPE_CHECKING:
    from .training import Trained


class Trainer:
    """One training at a time."""

    def __init__(self, observe: Callable[[float], None] = lambda seconds: None) -> None:
        self._busy = threading.Lock()
        self._observe = observe
        self._pool: ProcessPoolExecutor | None = None

    def train(self, rows: Rows, hosts: list[str], generation: int, wanted: dict[str, Any]) -> "Trained":
        """A model of `rows`; ConflictError while another is being made, TrainingError where it can't be."""
        if not self._busy.acquire(blocking=False):
            raise ConflictError("models: another one is being trained, wait for its end")
        try:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
            with self._pool:
                made = self._pool.submit(_work, rows, hosts, generation, wanted).result()
        except BrokenProcessPool as error:
            raise TrainingError("models: the training process ended early, was it out of memory?") from error
        finally:
            self._pool = None
            self._busy.release()
        self._observe(made.report["seconds"])
        return made

    def close(self) -> None:
        """Lets a training that is under way go."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _work(rows: Rows, hosts: list[str], generation: int, wanted: dict[str, Any]) -> "Trained":
    """In the training process."""
    from .training import train

    return train(rows, hosts, generation, **wanted)
