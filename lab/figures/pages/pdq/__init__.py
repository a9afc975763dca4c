"""Pages on PDQ's paper."""
