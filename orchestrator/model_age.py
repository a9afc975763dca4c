"""How old a model in force may become, unless the orchestrator is told: here alone.

A limit to forgetting, not a measured one: where flows are reported, drift is found by its windows long before.
"""

DAY_S = 86_400.0
MAX_AGE_DAYS = 30.0
