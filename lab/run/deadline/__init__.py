"""Deadlines over strict priorities: PDQ's query aggregation (SIGCOMM'12) in small, `qclimb lab run deadline`."""
