"""The `show qclimb` plug-in."""
