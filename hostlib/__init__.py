"""The host side of qclimb: libqclimb.so under applications, `qclimb-run` in front of it, `qclimb-hostd` beside it."""
