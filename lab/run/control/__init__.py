"""The control loop in the fabric: traffic changes, thresholds follow, a bad revision is undone."""
