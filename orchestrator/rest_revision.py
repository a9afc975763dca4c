"""From the body of POST /v1/revisions to the revision that is stored: thresholds computed, everything checked."""

from typing import Any

from qclimb.schema import validate_gnmi

from . import revision, thresholds
from .flows import Recordings
from .rest_types import RevisionBody
from .store import Store

Json = dict[str, Any]


def describe(body: RevisionBody, recordings: Recordings, store: Store) -> Json:
    """The revision that a request describes, as it is stored."""
    chosen: Json | None
    if body.thresholds == "optimise":
        sizes = thresholds.SizeDistribution.from_histogram(recordings.histogram(body.label))
        found = thresholds.optimise(
            sizes, body.priorities, body.load, body.objective, body.last_share, body.segment_bytes
        )
        threshold_bytes = found.threshold_bytes
        chosen = {"objective": body.objective, "load": body.load, "label": body.label}
        chosen |= {"last_share": body.last_share, "segment_bytes": body.segment_bytes}
        chosen |= {"cost": found.cost, "thresholds_needed": found.used}
    else:
        threshold_bytes = tuple(body.thresholds)
        chosen = None
    if body.model is not None:
        store.model(body.model)  # MissingError where there is none
    made = revision.compose(
        body.mode,
        threshold_bytes,
        body.priorities,
        None if body.queues is None else tuple(body.queues),
        tuple(body.ports or ()),
        body.ecn_bytes,
        # As many as PIAS's first threshold: a forest that knows nothing is then PIAS, neither better nor worse.
        slack_bytes=threshold_bytes[0] if body.slack_bytes is None and threshold_bytes else body.slack_bytes or 0,
        small_coflow_bytes=body.small_coflow_bytes,
        flow_gap_us=body.flow_gap_us,
        promote_wait_us=body.promote_wait_us,
        deadline_step_us=body.deadline_step_us,
        optax=body.optax,
        use_forest=body.use_forest,
        use_footprint=body.use_footprint,
        quickack=body.quickack,
        model_generation=body.model or 0,
    )
    validate_gnmi(made.intent.to_gnmi())
    return {"threshold_bytes": list(threshold_bytes), "optimised": chosen, **made.to_json()}
