"""What REST answers, for the OpenAPI document alone: nothing is checked or copied while serving, the tests do that.

A field's unit is in its name; times are seconds since 1970.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from qclimb.policy import Mode

from .auth import Role
from .rollout import HostPhase, Phase, SwitchPhase

Json = dict[str, Any]


def answers(model: Any, status: int = 200) -> dict[str, Any]:
    """The arguments of a route that answers so."""
    return {"response_model": None, "status_code": status, "responses": {status: {"model": model}}}


class Answer(BaseModel):
    """Has these fields and no other."""

    model_config = ConfigDict(extra="forbid")


class Refusal(Answer):
    """Why not."""

    detail: str = Field(description="one sentence: place, value, expectation")


class SwitchAnswer(Answer):
    """A registered switch."""

    name: str
    address: str
    role: str
    server_name: str | None
    applied_generation: int = Field(description="the last that it confirmed; 0: none")


class HostAnswer(Answer):
    """A registered host."""

    name: str
    policy_generation: int = Field(description="the policy that it last reported; 0: none")
    seen_at: float | None


class TokenAnswer(Answer):
    """A token, shown this once."""

    token: str
    role: Role
    name: str


class RevokedAnswer(Answer):
    """How many tokens of that name were revoked."""

    revoked: int


class DeliveryAnswer(Answer):
    """Under which label how many records are kept."""

    label: str
    records: int
    next_records: int = Field(description="how many records the next delivery may hold; all sizes are counted anyway")


class PolicyAnswer(Answer):
    """qclimb.policy.Policy; what each field does stands there."""

    generation: int
    mode: Mode
    threshold_bytes: list[int]
    dscp: list[int]
    slack_bytes: int
    small_coflow_bytes: int
    flow_gap_us: int
    promote_wait_us: int
    use_forest: bool
    use_footprint: bool
    quickack: bool
    model_generation: int = Field(description="0: none")
    deadline_step_us: int = Field(0, description="absent where deadlines are not honoured")
    optax: bool = Field(False, description="absent where it is not used")


class KeptRecords(Answer):
    """What became of flow records."""

    received: int
    kept: int
    aged_out: int
    dropped_at_host: int


class Forecasts(Answer):
    """How the bounds in force held."""

    flows: int
    coverage: float | None


class StatisticsAnswer(Answer):
    """Sizes of flows under one label, or under all (null)."""

    label: str | None
    labels: list[str]
    flows: int
    total_bytes: int
    mean_bytes: float | None
    quantile_bytes: dict[str, float] = Field(description="by share of flows")
    histogram: Json = Field(description="SizeHistogram")
    records: KeptRecords
    forecasts: Forecasts
    hosts: dict[str, int] = Field(description="flows by host")


class WindowAnswer(Answer):
    """How the bounds in force did on some flows that came one after another (drift.py)."""

    flows: int
    bounded: int
    misses: int
    fallbacks: int
    mean_log10_ratio: float
    coverage: float
    fallback_share: float


class DriftAnswer(Answer):
    """Windows of flows, the newest last, and why bounds no longer hold."""

    label: str | None
    windows: list[WindowAnswer]
    drifted: str | None


class RecordingAnswer(Answer):
    """The label under which flows are filed now, and all labels that there are."""

    label: str | None
    labels: list[str]


class MadeModelAnswer(Answer):
    """A model that was just made."""

    generation: int
    label: str
    report: Json = Field(description="how well it bounds the flows that it was not shown")


class ModelAnswer(MadeModelAnswer):
    """A model."""

    created_at: float


class MadeRevisionAnswer(Answer):
    """A revision that was just made."""

    id: int
    threshold_bytes: list[int]
    optimised: Json | None = Field(description="how the thresholds were computed; null where they were given")
    policy: PolicyAnswer
    intent: Json = Field(description="JSON_IETF of qclimb.yang")


class RevisionAnswer(MadeRevisionAnswer):
    """A revision."""

    created_at: float
    created_by: str


class StartedAnswer(Answer):
    """A rollout that has begun."""

    id: int
    generation: int
    revision: int


class SwitchStepAnswer(Answer):
    """How far a rollout is at a switch."""

    phase: SwitchPhase
    error: str | None
    applied_generation: int


class HostStepAnswer(Answer):
    """How far a rollout is at a host."""

    phase: HostPhase
    error: str | None
    applied_generation: int


class RolloutAnswer(StartedAnswer):
    """A rollout, by device."""

    created_at: float
    created_by: str
    phase: Phase
    error: str | None
    switches: dict[str, SwitchStepAnswer]
    hosts: dict[str, HostStepAnswer]


class StateAnswer(Answer):
    """The whole fabric."""

    policy: PolicyAnswer | None
    policy_generation: int
    recording: str | None
    running_rollout: int | None
    drift: Json | None = Field(description="what is known of the bounds in force (orchestrator/watch.py, class Watch)")
    last_rollout: RolloutAnswer | None
    switches: dict[str, SwitchAnswer]
    hosts: dict[str, HostAnswer]


class NoteAnswer(Answer):
    """A line of the audit log."""

    id: int
    at: float
    actor: str
    action: str
    subject: str


NOT_CHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "Still the asked one"}}
