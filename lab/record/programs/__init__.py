"""Programs of our own that recordings run, each a script that is started on a host."""
