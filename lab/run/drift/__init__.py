"""Traffic that changes under a model in force: what hosts report, and what the orchestrator makes of it."""
