"""The page at `/`: static files. What it shows comes by REST, with the operator's own token."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import FileResponse
from starlette.staticfiles import StaticFiles

from .. import page
from .service import Service

FOLDER = Path(page.__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
"""Nothing is loaded from, or sent to, anywhere else; a newer orchestrator's files are seen at once (by their ETags)."""


class Files(StaticFiles):
    """Those of the page."""

    def file_response(self, *words: Any, **named: Any) -> Response:
        """With our headers."""
        answer = super().file_response(*words, **named)
        answer.headers.update(HEADERS)
        return answer


def add(app: FastAPI, _: Service) -> None:
    """`/`, and what it loads."""
    app.mount("/page", Files(directory=FOLDER), name="page")

    @app.get("/", include_in_schema=False)
    async def get_page() -> Response:
        return FileResponse(FOLDER / "index.html", headers=HEADERS)
