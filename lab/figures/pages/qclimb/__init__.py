"""QCLIMB (NSDI'24)."""
