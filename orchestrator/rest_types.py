"""Bodies of the REST requests. An unknown field is refused; a field's unit is in its name."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints
from qclimb.policy import Mode

from .auth import Role
from .forest_size import DEPTH, TREES, UNCALIBRATED_TREES
from .thresholds import LAST_SHARE, LOAD, OBJECTIVE, SEGMENT_BYTES, Objective

UINT64_MAX = 2**64 - 1
UINT32_MAX = 2**32 - 1
SQLITE_MAX = 2**63 - 1

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:=-]{0,62}$")]
Address = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):"
        r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
    ),
]
Bytes = Annotated[StrictInt, Field(ge=0, le=UINT64_MAX - 1)]
Microseconds = Annotated[StrictInt, Field(ge=0, le=UINT32_MAX)]
Number = Annotated[StrictInt, Field(ge=1, le=SQLITE_MAX)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Body(BaseModel):
    """Refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid")


class SwitchBody(Body):
    """A switch's gNMI server; `server_name` where its certificate names something else than the address."""

    address: Address = Field(examples=["198.18.0.11:9339"])
    role: Literal["leaf", "spine"] = "leaf"
    server_name: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = None


class HostBody(Body):
    """A host; nothing but its name is needed."""


class TokenBody(Body):
    """A token to be made. One with role `host` acts for the host of that name alone."""

    role: Role
    name: Name


class RecordsBody(Body):
    """What a host saw since its last accepted delivery; also its heartbeat."""

    histogram: dict[str, Any] | None = Field(None, description="SizeHistogram of all flows, also of those not listed")
    records: Annotated[list[dict[str, Any]], Field(max_length=100_000)] = Field(
        default_factory=list, description="FlowRecord of each flow, or of a sample"
    )
    dropped: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = 0
    unobserved: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = Field(
        0, description="Flows that bypassed the library in part, so that they are in no histogram"
    )
    policy_generation: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = 0
    label: Label | None = Field(None, description="null: what PUT /v1/recording says")


class RecordingBody(Body):
    """Under which label the records that arrive from now on are filed; null ends a recording."""

    label: Label | None


class ModelBody(Body):
    """A forest to be trained on a recording."""

    label: Label
    trees: Annotated[StrictInt, Field(ge=1, le=200)] | None = Field(
        None, description=f"null: {TREES}; {UNCALIBRATED_TREES} where too few flows are held back to calibrate"
    )
    depth: Annotated[StrictInt, Field(ge=1, le=16)] = DEPTH
    features: Annotated[list[str], Field(min_length=1, max_length=12)] | None = Field(
        None, description="names of qclimb.features.FEATURES; null: the paper's eleven"
    )
    seed: Annotated[StrictInt, Field(ge=0, le=UINT32_MAX)] = 0
    beta: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="below 1: the report tells of that level, too")
    full: bool = Field(False, description="adds depths and a learning curve to the report; takes three times as long")
    small_bytes: Bytes = Field(100_000, description="flows up to this are small in the report")
    medium_bytes: Bytes = Field(10_000_000, description="flows up to this, and not small, are medium")


class RevisionBody(Body):
    """What the fabric is to do."""

    priorities: Annotated[StrictInt, Field(ge=1, le=8)] = 8
    mode: Mode = Mode.PIAS
    thresholds: Literal["optimise"] | list[Bytes] = "optimise"
    objective: Objective = Field(OBJECTIVE, description="what `optimise` makes small")
    load: Share = LOAD
    last_share: Annotated[
        float,
        Field(
            ge=0,
            lt=1,
            description="least share of all bytes that `optimise` leaves to the last priority; it protects large flows",
        ),
    ] = LAST_SHARE
    segment_bytes: Annotated[
        StrictInt, Field(ge=1, le=65_536, description="`optimise` rounds up to multiples of this")
    ] = SEGMENT_BYTES
    label: Label | None = Field(None, description="the recording whose sizes are used; null: all")
    slack_bytes: Bytes | None = Field(
        None, description="bytes at priority 0 past the forest's lower bound; null: as many as PIAS sends there"
    )
    use_forest: bool = True
    use_footprint: bool = True
    quickack: bool = True
    model: Number | None = None
    flow_gap_us: Microseconds = 5_000
    promote_wait_us: Microseconds = 100_000
    deadline_step_us: Microseconds = 0
    optax: bool = Field(False, description="receivers serve one small task after another")
    small_coflow_bytes: Bytes = 1 << 20
    queues: Annotated[list[Annotated[StrictInt, Field(ge=0, le=7)]], Field(max_length=8)] | None = None
    ports: Annotated[list[str], Field(max_length=1024)] | None = None
    ecn_bytes: tuple[Bytes, Bytes] | None = Field(None, description="queue length at which marking begins, is certain")


class RolloutBody(Body):
    """A revision to be brought into force."""

    revision: Number
