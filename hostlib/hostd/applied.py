"""Brings the orchestrator's policy, and the model it names, to the files that shims read.

Its invariant: the policy file never names a model that is not beside it; what can't be verified changes nothing.
"""

import json
import time
from pathlib import Path
from typing import Protocol

from qclimb.errors import ModelError, PolicyError, QclimbError
from qclimb.hostfile import check_forest_file, decode_policy, encode_policy
from qclimb.policy import Policy

from hostlib.hostd.errors import FleetError
from hostlib.hostd.orchestrator import Answer
from hostlib.hostd.place import Place, is_same, write_whole

Identity = tuple[int, int]


class Source(Protocol):
    """Where policies and models come from."""

    def policy(self, known_etag: str | None) -> Answer:
        """See `Orchestrator.policy`."""

    def forest(self, generation: int) -> bytes:
        """See `Orchestrator.forest`."""


class Applied:
    """The policy and model on this host's disk, and the ETag by which the orchestrator knows them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._etag: str | None = None
        self._policy_file: Identity | None = None
        self._model_file: Identity | None = None
        self.policy: Policy | None = None
        self._model = 0
        self.written_at = 0.0
        self.problem = ""
        self._adopt()

    def differs_from(self, etag: str | None) -> bool:
        """Whether the orchestrator names another policy than the one on disk; None: it names none."""
        return etag is not None and etag != self._etag

    def is_intact(self) -> bool:
        """Whether nobody removed or replaced a file."""
        return is_same(self._place.policy, self._policy_file) and (
            not self.model_generation or is_same(self._place.model, self._model_file)
        )

    def follow(self, source: Source) -> bool:
        """Asks once; returns whether the policy on disk changed.

        Raises:
            FleetError: the orchestrator is away or its answer is damaged; what is on disk stays.
            PlaceError: the disk refused.
        """
        if not self.is_intact():  # somebody removed or replaced a file: fetch and write it again
            self._etag = None
        answer = source.policy(self._etag)
        if answer.status != 200:
            return False
        try:
            policy = Policy.from_json(json.loads(answer.content))
        except (ValueError, RecursionError, PolicyError) as error:
            raise FleetError(f"policy from the orchestrator: {error}; kept generation {self.generation}") from error
        self._fetch_model(policy, source)
        changed = self._write(policy)
        self._etag = answer.etag
        return changed

    @property
    def generation(self) -> int:
        """Of the policy on disk, 0 without one."""
        return self.policy.generation if self.policy else 0

    @property
    def mode(self) -> str:
        """Of the policy on disk, "none" without one."""
        return self.policy.mode.value if self.policy else "none"

    @property
    def model_generation(self) -> int:
        """Of the model that the policy on disk names, 0 without one."""
        return self.policy.model_generation if self.policy else 0

    @property
    def bounds_off(self) -> bool:
        """Whether the policy on disk names a model and says not to use it."""
        return bool(self.policy and self.policy.model_generation and not self.policy.use_forest)

    def _adopt(self) -> None:
        """Goes on with what an earlier hostd left, where it is whole."""
        try:
            policy, self._policy_file = decode_policy(self._place.policy.read_bytes()), _identity(self._place.policy)
        except FileNotFoundError:
            return
        except (OSError, QclimbError) as error:
            self.problem = f"{self._place.policy}: {error}; waiting for the orchestrator's"
            return
        try:
            self._adopt_model(policy.model_generation)
        except (OSError, QclimbError) as error:
            self.problem = f"{self._place.model}: {error}; waiting for the orchestrator's"
        self.policy, self.written_at = policy, self._place.policy.stat().st_mtime

    def _adopt_model(self, generation: int) -> None:
        if generation:
            check_model(self._place.model.read_bytes(), generation)
            self._model, self._model_file = generation, _identity(self._place.model)

    def _fetch_model(self, policy: Policy, source: Source) -> None:
        wanted = policy.model_generation
        if not wanted or (wanted == self._model and is_same(self._place.model, self._model_file)):
            return
        content = source.forest(wanted)
        try:
            check_model(content, wanted)
        except ModelError as error:
            raise FleetError(
                f"model {wanted} from the orchestrator: {error}; kept policy generation {self.generation}"
            ) from error
        self._model_file = write_whole(self._place.model, content)
        self._model = wanted

    def _write(self, policy: Policy) -> bool:
        content = encode_policy(policy)
        decode_policy(content)  # what shims will read, read back
        same = policy == self.policy and is_same(self._place.policy, self._policy_file)
        if not same:
            self._policy_file = write_whole(self._place.policy, content)
            self.written_at = time.time()
        self.policy, self.problem = policy, ""
        return not same


def check_model(content: bytes, generation: int) -> None:
    """Checks kind, version, length and CRC; the tree itself is checked by whoever walks it (forest.h, at loading).

    Raises:
        ModelError: damaged, of another version, or not the generation that the policy names.
    """
    found = check_forest_file(content)
    if found != generation:
        raise ModelError(f"model's generation is {found}, expected {generation}")


def _identity(path: Path) -> Identity:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns
