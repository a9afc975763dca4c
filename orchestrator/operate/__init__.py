"""The operator's command line, `qclimb fabric`, `host`, `switch` and so on: a client of REST alone."""
