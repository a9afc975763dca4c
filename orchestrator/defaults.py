"""What `qclimb-orchestrator serve` does unless it is told, without slow imports: here alone, but for share.py's."""

MAX_RECORDS = 200_000
"""Flow records that are kept of a label; the oldest go first."""

SWITCH_DEADLINE_S = 30.0
"""Until a switch must have confirmed an intent."""
HOSTS_DEADLINE_S = 60.0
"""Until hosts must have reported a policy, else its rollout has failed; the policy stays."""

DRIFT_EVERY_S = 30.0
"""From one look at the bounds in force to the next."""

DAY_S = 86_400.0
MAX_AGE_DAYS = 30.0
"""Of a model in force. A limit to forgetting, not a measured one: where flows are reported, windows tell before."""
