"""What is logged, a line each: as text, or as JSON for a log store.

A message of ours is `rollout id=%d event=started by=%s`. As JSON its names are fields, with their values as they were.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any

from qclimb.text import PrintableLines

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
DIRECTIVE = re.compile(r"(?:(?P<name>[\w-]+)=)?(?:%[-#0 +.\d]*(?P<kind>[a-zA-Z%])|(?<==)(?P<literal>[\w-]+))")


class JsonLines(logging.Formatter):
    """`{"at": "...", "level": "INFO", "logger": "...", "message": "...", "event": "started", ...}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told: dict[str, Any] = {"at": at, "level": record.levelname, "logger": record.name}
        told["message"] = record.getMessage()
        for name, value in fields_of(str(record.msg), record.args).items():
            told.setdefault(name, value)
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def fields_of(template: str, args: Any) -> dict[str, Any]:
    """The names in a message's template, and their values."""
    values = iter(args if isinstance(args, tuple) else ())
    found: dict[str, Any] = {}
    for match in DIRECTIVE.finditer(template):
        if match["kind"] == "%":
            continue
        value = match["literal"] if match["literal"] is not None else next(values, None)
        if match["name"]:
            found[match["name"]] = value if isinstance(value, str | int | float | bool | None) else str(value)
    return found


def formatter(form: str) -> logging.Formatter:
    """`form` is "text" or "json"."""
    return JsonLines() if form == "json" else PrintableLines(TEXT)


OURS = ("orchestrator", "qclimb")
"""Whose events are logged; of libraries only what is wrong is."""


def configure(form: str) -> None:
    """Logs to standard error; `form` is "text" or "json"."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in OURS:
        logging.getLogger(name).setLevel(logging.INFO)
