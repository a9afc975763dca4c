"""The contract of qclimb: the types and formats that hosts, switches and the orchestrator share."""
