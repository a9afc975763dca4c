"""A virtual switch ASIC: takes SONiC's tables as orchagent does, and is the queues of one switch's ports.

`machine/` is orchagent and the ASIC's objects, pure; `feed`, `tell` and `follow` put it behind a redis; `program` says
what its objects make of a port, `asic` makes the kernel do that; `replay` runs it over recorded histories. It knows
nothing of qclimb: what `QCLIMB_*` rows say reaches it only as the QoS rows that switchd makes of them.
"""
