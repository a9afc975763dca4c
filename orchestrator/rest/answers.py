"""What REST answers, for the OpenAPI document alone: derived from the values that are answered.

Nothing is checked or copied while serving, the tests do that. A field's unit is in its name; times are seconds since
1970.
"""

import inspect
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from qclimb.policy import LATER_DEFAULTS
from qclimb.policy import Policy as PolicyInForce
from qclimb.switch_state import SpineState

from ..fabric import difference, rollout
from ..ingest import recordings
from ..models import drift
from ..plan import slowdowns
from ..store import store
from ..store.off import SwitchedOff
from ..watch import certificates, course, traffic
from .schemas import HISTOGRAM
from .tokens import Role

Json = dict[str, Any]


def of(model: Any, status: int = 200, *, many: bool = False) -> dict[str, Any]:
    """The arguments of a route that answers so."""
    told = list[model] if many else model
    return {"response_model": None, "status_code": status, "responses": {status: {"model": told}}}


class Answer(BaseModel):
    """Has these fields and no other."""

    model_config = ConfigDict(extra="forbid")


def shape(title: str, says: str, base: type[BaseModel] = Answer, /, **of: Any) -> Any:
    """An answer of these fields, by type, or by (type, default)."""
    told: Any = {field: kind if isinstance(kind, tuple) else (kind, ...) for field, kind in of.items()}
    return create_model(title, __base__=base, __doc__=says, **told)


def derived(title: str, source: type, /, *without: str, **instead: Any) -> Any:
    """A dataclass as an answer; `instead`: fields that it has not, or not so."""
    hints = get_type_hints(source)
    own = {field.name: hints[field.name] for field in fields(source) if field.name not in without}
    return shape(title, inspect.cleandoc(source.__doc__ or ""), **(own | instead))


def said(kind: Any, description: str) -> Any:
    """A type of which there is something to say."""
    return Annotated[kind, Field(description=description)]


WrongField = shape(
    "WrongField",
    "A field, and what is wrong with it.",
    field=said(str, "where it stands, as body.load"),
    detail=said(str, "one sentence: place, value, expectation"),
)
Refusal = shape(
    "Refusal",
    "Why not, as problem details (RFC 9457).",
    type=said(str, "about:blank"),
    title=said(str, "what the status means"),
    status=int,
    detail=said(str, "one sentence: place, value, expectation"),
    errors=(said(list[WrongField] | None, "where fields are wrong"), None),  # type: ignore[valid-type]
)

Switch = derived("SwitchAnswer", store.Switch, applied_generation=said(int, "the last that it confirmed; 0: none"))
Host = derived("HostAnswer", store.Host, policy_generation=said(int, "the policy that it last reported; 0: none"))
EXPIRY = said(float | None, "null: never")
Token = shape("TokenAnswer", "A token, shown this once.", token=str, role=Role, name=str, expires_at=EXPIRY)
KnownToken = derived("KnownTokenAnswer", store.KnownToken, role=Role, expires_at=EXPIRY)
Revoked = shape("RevokedAnswer", "How many tokens of that name were revoked.", revoked=int)

Policy = derived(
    "PolicyAnswer",
    PolicyInForce,
    model_generation=said(int, "0: none"),
    **{name: (said(type(value), "absent at the default"), value) for name, value in LATER_DEFAULTS.items()},
)
Delivery = shape(
    "DeliveryAnswer",
    "Under which label how many records are kept.",
    label=str,
    records=int,
    next_records=said(int, "how many records the next delivery may hold; all sizes are counted anyway"),
    policy_etag=said(str | None, "of the policy in force: it need not be asked for; null: none yet"),
    stretch_s=said(float, "from one look at connections' round-trip times to the next"),
)

Statistics = derived(
    "StatisticsAnswer",
    recordings.Statistics,
    quantile_bytes=said(dict[str, float], "by share of flows"),
    histogram=Annotated[Json, WithJsonSchema(HISTOGRAM)],
    records=derived("KeptRecords", recordings.KeptRecords),
    forecasts=derived("Forecasts", recordings.Forecasts),
    hosts=said(dict[str, int], "flows by host"),
)
Window = derived("WindowAnswer", drift.Window, coverage=float, fallback_share=float)
Drift = shape(
    "DriftAnswer",
    "Windows of flows, the newest last, and why bounds no longer hold.",
    label=str | None,
    windows=list[Window],  # type: ignore[valid-type]
    drifted=str | None,
)
Recording = shape(
    "RecordingAnswer",
    "The label under which flows are filed now, and all labels that there are.",
    label=str | None,
    labels=list[str],
)

REPORT = said(Json, "how well it bounds the flows that it was not shown")
MadeModel = derived("MadeModelAnswer", store.Model, "created_at", report=REPORT)
Model = derived("ModelAnswer", store.Model, report=REPORT)

MadeRevision = shape(
    "MadeRevisionAnswer",
    "A revision that was just made.",
    id=int,
    threshold_bytes=list[int],
    optimised=said(Json | None, "how the thresholds were computed; null where they were given"),
    shares=(said(Json | None, "which shares of a port's buffer were chosen, and why"), None),
    spines=(said(Json | None, "what was wished of several spines, which are used, what each carries"), None),
    policy=Policy,
    intent=said(Json, "JSON_IETF of qclimb.yang"),
    warnings=said(list[str], "what may not have been meant, a sentence each"),
)
Revision = shape("RevisionAnswer", "A revision.", MadeRevision, created_at=float, created_by=str)

Change = derived("ChangeAnswer", difference.Change)
SwitchChanges = derived(
    "SwitchChangesAnswer",
    difference.SwitchChanges,
    changes=list[Change],  # type: ignore[valid-type]
    error=said(str | None, "why it is not known"),
)
Changes = shape(
    "ChangesAnswer",
    "What a rollout would change.",
    switches=dict[str, SwitchChanges],  # type: ignore[valid-type]
    hosts=said(list[Change], "at every host"),  # type: ignore[valid-type]
)

Off = derived(
    "OffAnswer",
    SwitchedOff,
    by=said(str, "the token's name"),
    unkept=said(str | None, "why the database does not have it yet: it holds while this process runs; null: it has"),
)
Started = shape("StartedAnswer", "A rollout that has begun.", id=int, generation=int, revision=int)
Asked = shape("AskedAnswer", "The rollout's phase now.", id=int, phase=rollout.Phase)
WholeRollout = shape(
    "WholeRolloutAnswer",
    "A rollout but for its devices.",
    Started,
    created_at=float,
    created_by=str,
    phase=rollout.Phase,
    error=str | None,
    wave=said(int, "how many of the plan's waves have been opened after the first"),
    plan=derived("PlanAnswer", rollout.Plan),
)
CountedRollout = shape(
    "CountedRolloutAnswer",
    "A rollout; how many devices are in which phase.",
    WholeRollout,
    switches=dict[str, int],
    hosts=dict[str, int],
)
Rollout = shape(
    "RolloutAnswer",
    "A rollout, by device.",
    WholeRollout,
    switches=dict[str, derived("SwitchStepAnswer", rollout.SwitchStep, "previous", "again")],  # type: ignore[misc]
    hosts=dict[str, derived("HostStepAnswer", rollout.HostStep)],  # type: ignore[misc]
)

State = shape(
    "StateAnswer",
    "The whole fabric.",
    policy=Policy | None,
    policy_generation=int,
    off=said(Off | None, "hosts are switched off, whatever policy is in force"),
    recording=str | None,
    running_rollout=int | None,
    drift=said(Json | None, "what is known of the bounds in force (orchestrator/watch/bounds.py, class Watch)"),
    last_rollout=Rollout | None,
    switches=dict[str, Switch],  # type: ignore[valid-type]
    switches_drifted=said(dict[str, str], "how a switch differs from the intent in force, between rollouts"),
    hosts=dict[str, Host],  # type: ignore[valid-type]
    flows_not_believed=said(
        dict[str, int], "by host, since the start: flows beyond what its link can have carried, in no statistics"
    ),
    flows_unobserved=said(dict[str, int], "by host, since the start: flows that bypassed the library in part"),
)
Caller = shape("CallerAnswer", "Who asks.", name=str, role=Role, expires_at=EXPIRY)
HostsCounted = shape(
    "HostsCounted",
    "How many are registered, silent, or follow another policy than the one in force.",
    registered=int,
    silent=int,
    behind=int,
)
Overview = shape(
    "OverviewAnswer",
    "The fabric in counts, and what stands out.",
    now=float,
    policy=Policy | None,
    revision=said(int | None, "that the policy in force is of"),
    off=said(Off | None, "hosts are switched off, whatever policy is in force"),
    recording=str | None,
    labels=list[str],
    last_rollout=int | None,
    rollout=said(WholeRollout | None, "the last one"),
    running_rollout=int | None,
    drift=said(Json | None, "what is known of the bounds in force (orchestrator/watch/bounds.py, class Watch)"),
    switches_failing=said(
        dict[str, str], "why a switch did not answer the newest look, or could not be told by the last rollout"
    ),
    switches=list[Switch],  # type: ignore[valid-type]
    switches_drifted=said(dict[str, str], "how a switch differs from the intent in force"),
    hosts=HostsCounted,
    silent_hosts=list[Host],  # type: ignore[valid-type]
    behind_hosts=list[Host],  # type: ignore[valid-type]
    flows_unobserved=said(dict[str, int], "by host, since the start"),
    flows_not_believed=said(dict[str, int], "by host, since the start"),
)
Rates = derived("Rates", traffic.Rates)
SwitchTraffic = shape(
    "SwitchTraffic",
    "What a switch carried between the last two looks that it answered.",
    seen_at=float | None,
    seconds=said(float | None, "between both looks"),
    error=said(str | None, "why it did not answer the newest look"),
    drift=said(str | None, "how it differs from the intent in force"),
    verification=said(str | None, "how it knows that what it applied holds: seen, pending, unverified"),
    warning=said(str | None, "what its intent does to traffic that is not qclimb's: which queues it may starve"),
    ports=said(dict[str, int], "how many have each status"),
    alarms=said(dict[str, str], "of priorities that take much more of a port than is foretold"),
    priorities=said(dict[str, Rates], "over all granted ports"),  # type: ignore[valid-type]
)
Traffic = shape("TrafficAnswer", "By switch.", switches=dict[str, SwitchTraffic])  # type: ignore[valid-type]
Felt = derived("FeltAnswer", course.Point)
Slowdowns = derived("Slowdowns", slowdowns.Slowdowns)
ForetoldOf = shape("ForetoldRevision", "Of one revision.", revision=int, created_at=float, slowdowns=Slowdowns)
Foretold = shape(
    "ForetoldAnswer",
    "Mean slowdowns by size of flow, as the model of thresholds foretells them.",
    label=str | None,
    load=float,
    before=said(Slowdowns | None, "without thresholds; null: no flow is recorded"),
    revisions=list[ForetoldOf],  # type: ignore[valid-type]
)
Certificate = derived("CertificateAnswer", certificates.Certificate)
Leaf = derived("SpineAtLeaf", SpineState, "name", reason=said(str, "why it is not up"))
Spine = shape(
    "SpineAnswer",
    "A spine.",
    down=said(bool, "held to be down, and left out"),
    share=said(float | None, "of the last priority, wanted; null: none is told"),
    priorities=said(list[int], "that are pinned to it"),
    leaves=said(dict[str, Leaf], "what each leaf tells of it"),  # type: ignore[valid-type]
)
LeafSeen = shape(
    "LeafAnswer",
    "What a leaf tells of its own.",
    seen_at=float,
    error=said(str | None, "why it told nothing"),
    path_backend=str | None,
    pinned_classes_max=int | None,
)
Spines = shape(
    "SpinesAnswer",
    "The spines of the revision in force, and all others that leaves know.",
    wished=said(list[str], "by the operator"),
    used=said(list[str], "by the revision in force"),
    waits=said(str | None, "why others are not used yet that should be"),
    spines=dict[str, Spine],  # type: ignore[valid-type]
    leaves=dict[str, LeafSeen],  # type: ignore[valid-type]
)
Note = derived("NoteAnswer", store.Note)
