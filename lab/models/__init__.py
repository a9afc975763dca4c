"""Research on bounds: the ladder, what forests would have said of recordings, and the command `qclimb model`."""
