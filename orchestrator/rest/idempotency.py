"""Requests that may be repeated with their Idempotency-Key, and are done once. Hosts' deliveries: ingest.deliveries.

As draft-ietf-httpapi-idempotency-key-header-07 has it: a key belongs to who asks; with another request it is refused
(422), while the first is under way too (409). A refused request leaves no answer, and may be repeated. Of a request no
more is kept than a digest of who asks what (method, path, the body as it was understood): no word of a body.
"""

import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from ..errors import ConflictError, ReusedKeyError
from ..store.store import Store

Json = dict[str, Any]
Keep = Callable[[Json], Json]

_under_way: set[tuple[int, str]] = set()
_lock = threading.Lock()


def fingerprint(*asked: Any) -> str:
    """A digest of what is asked: plain JSON, however its objects are ordered, and bytes."""
    made = hashlib.sha256()
    for part in asked:
        made.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        made.update(b"\n")
    return made.hexdigest()


def asked(request: Request, body: BaseModel) -> str:
    """What a request asks, as a key is held to it."""
    return fingerprint(request.method, request.url.path, body.model_dump(mode="json"))


def once(store: Store, caller: str, key: str | None, wanted: str, make: Callable[[Keep], Json]) -> Json:
    """With an Idempotency-Key the same answer a second time, without doing it again.

    wanted  what is asked, as `fingerprint` has it
    make    does it, and has the answer kept (`Keep` returns it) in the transaction that does: both or neither

    Raises ReusedKeyError where the key came with another request, ConflictError while the first request with it is
    under way (a client that gave up waiting asks again).
    """
    if key is None:
        return make(lambda answer: answer)
    place = (id(store), f"once {caller} {key}")
    with _lock:
        if place in _under_way:
            raise ConflictError(f"Idempotency-Key {key!r}: the first request with it is under way, ask again")
        _under_way.add(place)
    try:
        found = store.answer(place[1])
        if found is None:
            return make(lambda answer: store.keep_answer(place[1], wanted, answer))
        if found[0] != wanted:
            raise ReusedKeyError(key)
        return dict(found[1])
    finally:
        _under_way.discard(place)
