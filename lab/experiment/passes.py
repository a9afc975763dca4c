"""Passes of an experiment: in which order they are measured, and which of them are there already.

Repeats are outermost and schemes take turns to be first, so that a drift of the machine favours none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from lab.experiment.store import Kept
from lab.experiment.terminal import Progress, Teller

P = TypeVar("P", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Pass(Generic[P]):
    """A scheme at a point, once again for each repeat; `name` for people, and of the file that it is kept in."""

    point: P
    scheme: str
    repeat: int
    name: str


class Named(Hashable, Protocol):
    """A pass, whatever else it says of itself."""

    @property
    def name(self) -> str:
        """Unique."""


N = TypeVar("N", bound=Named)
Run = Callable[[N, Progress], T]
"""Measures one pass."""


def interleaved(points: Iterable[tuple[P, Sequence[S]]], repeats: Iterable[int]) -> Iterator[tuple[P, S, int]]:
    """(point, scheme, repeat) in the order of measuring: repeats outermost, schemes rotated by one each time."""
    points, turn = list(points), 0
    for repeat in repeats:
        for point, schemes in points:
            for n in range(len(schemes)):
                yield point, schemes[(n + turn) % len(schemes)], repeat
            turn += 1


def found(wanted: Sequence[N], names: Mapping[N, str], store: Kept[T], fits: Callable[[N, T], bool]) -> dict[N, T]:
    """What is kept of the passes that are wanted."""
    kept = {one: store.find(names[one]) for one in wanted}
    return {one: result for one, result in kept.items() if result is not None and fits(one, result)}


def measure(
    wanted: Sequence[N],
    names: Mapping[N, str],
    store: Kept[T],
    bench: Callable[[Sequence[N]], AbstractContextManager[Run[N, T]]],
    say: Teller,
    *,
    fits: Callable[[N, T], bool] = lambda one, result: True,
    trouble: Callable[[T], Sequence[str]] = lambda result: (),
    together: Callable[[N], Hashable] = lambda one: None,
    seconds: float = 0.0,
    is_stored: bool = False,
) -> dict[N, T]:
    """Measures what is missing and gives all that there is, in the order of `wanted`.

    `names`: under which each is kept. `bench`: makes ready for some passes, and gives what runs one of them; there is
    one for all passes that `together` says belong together. `fits`: whether a kept result is still what is wanted.
    `trouble`: why a result is not as it should be; such a pass is run once again, and the better of the two is taken.
    `seconds`: no pass begins after so long, 0: no limit. `is_stored`: nothing is measured.
    """
    there = found(wanted, names, store, fits)
    missing = [one for one in wanted if one not in there]
    say(f"{len(wanted)} passes wanted, {len(there)} are there already, in {store.folder}")
    until = time.monotonic() + seconds if seconds else float("inf")
    left = [] if is_stored else missing
    for kind in dict.fromkeys(map(together, left)):
        mine = [one for one in left if together(one) == kind]
        if time.monotonic() < until:
            with bench(mine) as run:
                _run_all(mine, run, lambda one, result: store.save(names[one], result), trouble, say, until)
    return found(wanted, names, store, fits) if left else there


def _run_all(
    missing: Sequence[N],
    run: Run[N, T],
    keep: Callable[[N, T], None],
    trouble: Callable[[T], Sequence[str]],
    say: Teller,
    until: float,
) -> None:
    start = time.monotonic()
    for number, one in enumerate(missing):
        if time.monotonic() >= until:
            say(f"{len(missing) - number} passes are left for the next run")
            break
        left = (time.monotonic() - start) / number * (len(missing) - number) / 60 if number else 0.0
        eta = f", about {left:.0f} min left" if number else ""
        with say.bar(f"pass {number + 1} of {len(missing)}: {one.name}{eta}") as progress:
            result = better_of_two(partial(run, one, progress), trouble, say)
        keep(one, result)


def better_of_two(run: Callable[[], T], trouble: Callable[[T], Sequence[str]], say: Callable[[str], None]) -> T:
    """A result; once again where it is not as it should be, then the better one, which the report marks."""
    result = run()
    why = trouble(result)
    if not why:
        return result
    say(f"once again, for: {'; '.join(why)}")
    again = run()
    return again if len(trouble(again)) <= len(why) else result
