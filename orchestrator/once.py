"""Requests that may be repeated with their Idempotency-Key, and are done once."""

from collections.abc import Callable
from typing import Any

from .store import Store

Json = dict[str, Any]


def once(store: Store, caller: str, key: str | None, what: str, make: Callable[[], Json]) -> Json:
    """With an Idempotency-Key the same answer a second time, without doing it again."""
    if key is None:
        return make()
    key = f"{caller} {what} {key}"
    found = store.answer(key)
    if found is not None:
        return dict(found[1])
    answer = make()
    store.keep_answer(key, 200, answer)
    return answer


def once_delivered(store: Store, host: str, key: str | None, take: Callable[[], Json]) -> Json:
    """As `once`, for a host's deliveries: it has one under way at a time, so that its last key is enough.

    A key a delivery would be some 86,000 rows a day and host.
    """
    if key is None:
        return take()
    place = f"last delivery of {host}"
    found = store.answer(place)
    if found is not None and found[1]["key"] == key:
        return dict(found[1]["answer"])
    answer = take()
    store.keep_answer(place, 202, {"key": key, "answer": answer}, replace=True)
    return answer
