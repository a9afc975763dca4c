"""Lists in pages: `?limit=&after=`, and the next page's address in Link (RFC 8288)."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response

from .bodies import Text

LIMIT, LIMIT_MOST = 1000, 10_000

Limit = Annotated[int, Query(ge=1, le=LIMIT_MOST, description="so many at most; Link has the next page")]
AfterName = Annotated[Text | None, Query(max_length=63, description="those that come after this name")]
AfterId = Annotated[int | None, Query(ge=0, le=2**63 - 1, description="those that come after this number")]

Row = TypeVar("Row")


def page(
    rows: Sequence[Row], key: Callable[[Row], Any], limit: int, after: Any, request: Request, response: Response
) -> list[Row]:
    """The rows after `after`, `limit` at most; `rows` ascend by `key`."""
    left = rows if after is None else [row for row in rows if key(row) > after]
    if len(left) > limit:
        following = request.url.include_query_params(after=key(left[limit - 1]), limit=limit)
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return list(left[:limit])
