"""Bodies of the REST requests. An unknown field is refused; a field's unit is in its name."""

from dataclasses import MISSING, fields
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StringConstraints,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError
from qclimb.bigspine import UNPINNED_DSCP
from qclimb.layout import Kind, marks_of
from qclimb.leaves import LARGEST_ECN, LARGEST_TH, LEAST_ECN, LEAST_TH
from qclimb.policy import MAX_PRIORITIES, Mode, Policy
from qclimb.text import EXPECTED, UNPRINTABLE

from ..actors import Actor, is_reserved
from ..fabric.felt import SLOWDOWN_MOST
from ..fabric.rollout import DROPS_MOST
from ..models.forest_size import DEPTH, TREES, UNCALIBRATED_TREES
from ..plan.revision import PRIORITIES, UNMARKED
from ..plan.shares import PLATFORM_TH, Port
from ..plan.thresholds import LAST_SHARE, LOAD, OBJECTIVE, SEGMENT_BYTES, Objective
from .schemas import HISTOGRAM, RECORD, STRETCH
from .tokens import Role

UINT64_MAX = 2**64 - 1
UINT32_MAX = 2**32 - 1
SQLITE_MAX = 2**63 - 1


def unreserved(name: str) -> str:
    """The name of a token or host; ValueError where the orchestrator itself acts by it."""
    if is_reserved(name):
        raise ValueError(f"{name!r} is reserved, expected none of {', '.join(Actor)}")
    return name


UNKNOWN_MOST = 4
"""Unknown fields that a refusal names; a body may have a million."""


def _check_printable(found: str) -> str:
    if UNPRINTABLE.search(found):
        raise PydanticCustomError("unprintable", "expected {expected}", {"expected": EXPECTED})
    return found


def _check_length(found: Any) -> Any:
    if isinstance(found, dict) and len(found) >= MAX_PRIORITIES:
        raise PydanticCustomError("too_long", "expected at most {most} entries", {"most": MAX_PRIORITIES - 1})
    return found


def up_to(most: int, least: int = 0) -> Any:
    """Of a list: its bounds, and that its first wrong item ends the search, so that a refusal's work is bounded."""
    return Field(min_length=least, max_length=most, fail_fast=True)


Text = Annotated[str, AfterValidator(_check_printable)]
"""All text that no pattern bounds: it can be stored, sent and printed as it is (qclimb.text)."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
NewName = Annotated[Name, AfterValidator(unreserved)]
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._:=-]{0,62}$")]
Address = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):"
        r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$"
    ),
]
Bytes = Annotated[StrictInt, Field(ge=0, le=UINT64_MAX - 1)]
Number = Annotated[StrictInt, Field(ge=1, le=SQLITE_MAX)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Shares = Annotated[
    dict[Name, Annotated[float, Field(ge=0, le=1)]],
    BeforeValidator(_check_length),
    Field(json_schema_extra={"maxProperties": MAX_PRIORITIES - 1}),
]
EcnBytes = Annotated[StrictInt, Field(ge=LEAST_ECN, le=LARGEST_ECN)]
DynamicTh = Annotated[StrictInt, Field(ge=LEAST_TH, le=LARGEST_TH)]


class Body(BaseModel):
    """Refuses fields that it does not know."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _drop_most_unknown(cls, found: Any) -> Any:
        """Pydantic lists each unknown field."""
        known = cls.model_fields
        if not isinstance(found, dict) or len(found) <= len(known) + UNKNOWN_MOST:
            return found
        unknown = islice((key for key in found if key not in known), UNKNOWN_MOST)
        return {key: found[key] for key in (*known, *unknown) if key in found}


class SwitchBody(Body):
    """A switch's gNMI server; `server_name` where its certificate names something else than the address."""

    address: Address = Field(examples=["198.18.0.11:9339"])
    role: Literal["leaf", "spine"] = "leaf"
    server_name: Annotated[Text, Field(min_length=1, max_length=253)] | None = None


class HostBody(Body):
    """A host; nothing but its name is needed."""


class TokenBody(Body):
    """A token to be made. One with role `host` acts for the host of that name alone."""

    role: Role
    name: NewName
    expires_in_s: Annotated[StrictInt, Field(ge=1, le=UINT32_MAX)] | None = Field(None, description="null: never")


class RecordsBody(Body):
    """What a host saw since its last accepted delivery; also its heartbeat."""

    histogram: Annotated[dict[str, Any], WithJsonSchema(HISTOGRAM)] | None = Field(
        None, description="of all flows, also of those not listed"
    )
    records: Annotated[list[Annotated[dict[str, Any], WithJsonSchema(RECORD)]], up_to(100_000)] = Field(
        default_factory=list, description="FlowRecord of each flow, or of a sample"
    )
    dropped: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = 0
    unobserved: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = Field(
        0, description="Flows that bypassed the library in part, so that they are in no histogram"
    )
    policy_generation: Annotated[StrictInt, Field(ge=0, le=SQLITE_MAX)] = 0
    label: Label | None = Field(None, description="null: what PUT /v1/recording says")
    stretch: Annotated[dict[str, Any], WithJsonSchema(STRETCH)] | None = Field(
        None, description="of connections that carry small flows; null: not told now"
    )


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
    features: Annotated[list[Text], up_to(12, 1)] | None = Field(
        None, description="names of qclimb.features.FEATURES; null: the paper's eleven"
    )
    seed: Annotated[StrictInt, Field(ge=0, le=UINT32_MAX)] = 0
    beta: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="below 1: the report tells of that level, too")
    full: bool = Field(False, description="adds depths and a learning curve to the report; takes three times as long")
    small_bytes: Bytes = Field(100_000, description="flows up to this are small in the report")
    medium_bytes: Bytes = Field(10_000_000, description="flows up to this, and not small, are medium")


DECIDED = ("model_generation", "spines", "unpinned_dscp")
"""Fields of a policy that follow from others of a revision."""


def _asked_of_a_policy() -> dict[str, Any]:
    """Policy's fields that have a default, as an operator may ask for them; but for those that are decided."""
    found: dict[str, Any] = {}
    for field in fields(Policy):
        kind, *marks = marks_of(Policy)[field.name]
        if field.default is MISSING or field.name in DECIDED:
            continue
        allowed = Annotated[StrictInt, Field(ge=0, le=kind.highest)] if isinstance(kind, Kind) else bool
        about = next(mark for mark in marks if isinstance(mark, str))
        found[field.name] = (allowed, Field(field.default, description=about))
    return found


if TYPE_CHECKING:
    PolicyBody = Body
else:
    PolicyBody = create_model("PolicyBody", __base__=Body, **_asked_of_a_policy())


class PortBody(Body):
    """A switch port and the hosts behind it, as far as losses depend on them."""

    buffer_bytes: Annotated[StrictInt, Field(ge=3_000, le=SQLITE_MAX)]
    """What its queues share; two packets at least."""
    gbps: Annotated[float, Field(gt=0, le=1_600, allow_inf_nan=False)]
    dynamic_th: DynamicTh = PLATFORM_TH
    """Of the platform's lossy profile."""
    initial_window: Annotated[StrictInt, Field(ge=1, le=1_000)] = 10
    """Packets."""
    congestion_control: Literal["loss", "dctcp"] = "loss"
    """What ends a host's growth: a loss (cubic, Reno, bbr), or DCTCP's marks."""

    @property
    def known(self) -> Port:
        """As the plan takes it."""
        return Port(**dict(self))


class RevisionBody(PolicyBody):
    """What the fabric is to do; the hosts' policy by the fields of qclimb.policy.Policy."""

    priorities: Annotated[StrictInt, Field(ge=1, le=MAX_PRIORITIES)] | None = Field(
        None, description=f"null: {PRIORITIES}, or on several spines as many as they make with `queues`"
    )
    mode: Mode = Mode.PIAS
    thresholds: Literal["optimise"] | Annotated[list[Bytes], up_to(MAX_PRIORITIES - 1)] = "optimise"
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
    known_share: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="share of bytes of flows whose size hosts know at once: they climb, and `last_share` "
            "shrinks by as much",
        ),
    ] = 0.0
    segment_bytes: Annotated[
        StrictInt, Field(ge=1, le=65_536, description="`optimise` rounds up to multiples of this")
    ] = SEGMENT_BYTES
    label: Label | None = Field(None, description="the recording whose sizes are used; null: all")
    slack_bytes: Bytes | None = Field(
        None, description="bytes at priority 0 past the forest's lower bound; null: as many as PIAS sends there"
    )
    model: Number | None = None
    queues: Annotated[list[Annotated[StrictInt, Field(ge=0, le=7)]], up_to(8)] | None = Field(
        None,
        description="served-first order; null: one a priority, from the number of priorities down; [1, 0] on spines",
    )
    spines: Annotated[list[Name], up_to(MAX_PRIORITIES - 1)] | None = Field(
        None, description="priorities are pinned to them in this order, row by row; null, or one of them: one path"
    )
    spine_gbps: (
        Annotated[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]], up_to(MAX_PRIORITIES - 1)] | None
    ) = Field(None, description="the rate of the links to each spine; null: all alike")
    weights: Literal["level", "equal"] | Shares = Field(
        "level",
        description="shares of the last priority by spine: that level the spines' loads, none, or these; in sum 1",
    )
    dscp: Annotated[list[Annotated[StrictInt, Field(ge=0, le=63)]], up_to(MAX_PRIORITIES)] | None = Field(
        None, description="of each priority; null: the default list, for at most 8"
    )
    unpinned_dscp: Annotated[StrictInt, Field(ge=1, le=63)] | None = Field(
        None, description=f"of ACKs, SYNs and retransmissions, pinned to no spine; null: {UNPINNED_DSCP}"
    )
    ports: Annotated[list[Text], up_to(1024)] | None = None
    dynamic_th: Literal["choose"] | Annotated[list[DynamicTh | None], up_to(8)] | None = Field(
        "choose",
        description="of each queue, served-first order: it may hold 2 to this power times what is free of a port's "
        "buffer; null: as the platform has it; `choose`: as simulations of `port` foretell is best",
    )
    port: PortBody | None = Field(
        None, description="what `choose` must know, on one path; null: it leaves the platform's"
    )
    max_share: Annotated[list[Limit | None], up_to(8)] | None = Field(
        None,
        description="of each queue, served-first order: the most it gets of a port's speed; null: no limit, and the "
        "switch warns where a strict queue may starve routing protocols or lossless traffic",
    )
    ecn_bytes: tuple[EcnBytes, EcnBytes] | None = Field(
        None, description="queue length at which marking begins, is certain"
    )

    @property
    def needs_sizes(self) -> bool:
        """Whether flow sizes decide anything of it: not where nothing is marked."""
        if self.mode in UNMARKED:
            return False
        on_spines = len(self.spines or ()) > 1
        is_foretold = self.dynamic_th == "choose" and self.port is not None and not on_spines
        return self.thresholds == "optimise" or is_foretold or (self.weights == "level" and on_spines)


class RolloutBody(Body):
    """A revision to be brought into force."""

    revision: Number
    waves: Annotated[list[Annotated[float, Field(gt=0, le=1)]], up_to(20)] = []
    """Shares of the switches after each wave, ascending, each at least one switch; the rest follows. Default: all."""
    soak_s: Annotated[float, Field(ge=0, le=86_400)] = 0
    """Between a wave's last confirmation and the look at its switches."""
    absent_most: Annotated[int, Field(ge=0, le=SQLITE_MAX)] | None = None
    slowdown_most: Annotated[float, Field(ge=1.1, le=1000, allow_inf_nan=False)] | None = Field(
        SLOWDOWN_MOST,
        description="Where hosts' small flows are slower by more than this factor, it is undone; null: no matter",
    )
    drops_most: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        DROPS_MOST,
        description="Where a switch drops more of the first priority's packets while a wave soaks, it is undone",
    )
    """So many switches may be away; default one in twenty."""

    @model_validator(mode="after")
    def _ascending(self) -> Self:
        if any(later <= sooner for sooner, later in pairwise(self.waves)):
            raise ValueError(f"waves: {self.waves} do not ascend, expected each share above the one before")
        return self
