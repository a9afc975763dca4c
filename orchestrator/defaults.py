"""What `qclimb-orchestrator serve` does unless it is told, without slow imports: here alone, but for ingest.quota's."""

MAX_RECORDS = 200_000
"""Flow records that are kept of a label; the oldest go first."""

LINK_GBPS = 100.0
"""What a host's link carries, in Gb/s: it is believed no more flows."""

SWITCH_DEADLINE_S = 30.0
"""Until a switch must have confirmed an intent."""
RESTORE_FOR_S = 300.0
"""It is tried for so long to give a switch back what it had; then a person has to look."""
HOSTS_DEADLINE_S = 60.0
"""Until hosts must have reported a policy, else its rollout has failed; the policy stays."""

DRIFT_EVERY_S = 30.0
"""From one look at the bounds in force to the next."""

DAY_S = 86_400.0
MAX_AGE_DAYS = 30.0
"""Of a model in force. A limit to forgetting, not a measured one: where flows are reported, windows tell before."""

SPINES_EVERY_S = 1.0
SPINE_DOWN_S = 1.0
"""A spine that a leaf can't reach for so long is left out; switches route around it by themselves at once."""
SPINE_UP_S = 30.0
