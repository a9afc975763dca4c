"""Passes kept on disk, so that an experiment goes on where it stopped, and the rules by which a pass is taken.

A pass is stored under a key made of all that decides it, as far as it is ours; a rerun does only what is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.workload import guards
from lab.workload.passes import PassResult


def key_of(**decides: Any) -> str:
    """Names a pass by everything that decides its result, as far as it is ours."""
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()[:20]


def digests(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of files by name; a missing one is `missing`."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else "missing" for path in paths
    }


class Store:
    """Results of passes in a folder, a file a key; beside them the thresholds that a resumed run goes on with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, key: str) -> Path:
        """Where a pass's result is or will be."""
        return self.folder / "passes" / f"{name}-{key}.json"

    def find(self, name: str, key: str) -> PassResult | None:
        """A stored result, None if there is none or it can't be read."""
        try:
            return PassResult.load_file(self.path(name, key))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def thresholds(self) -> dict[str, list[int]]:
        """Those that earlier runs used, by whatever the experiment decides them for."""
        path = self.folder / "thresholds.json"
        if not path.is_file():
            return {}
        return {what: list(values) for what, values in json.loads(path.read_text(encoding="utf-8")).items()}

    def keep_thresholds(self, found: Mapping[str, list[int]]) -> None:
        """For the next run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "thresholds.json").write_text(json.dumps(found), encoding="utf-8")


def under(result: PassResult, thresholds: Sequence[int] | None) -> bool:
    """Whether a stored pass ran under the thresholds that a resumed run goes on with; without any, it sets them."""
    return not thresholds or list(result.settings.get("threshold_bytes", thresholds)) == list(thresholds)


def honest(
    run: Callable[[], PassResult],
    say: Callable[[str], None],
    trouble_of: Callable[[PassResult], list[str]] = guards.trouble,
) -> PassResult:
    """A pass; once again if the machine was too busy or flows failed, then taken as it is and marked in the report."""
    result = run()
    trouble = trouble_of(result)
    if not trouble:
        return result
    say(f"once again, for: {'; '.join(trouble)}")
    again = run()
    return again if len(trouble_of(again)) <= len(trouble) else result
