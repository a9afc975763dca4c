"""A virtual switch ASIC: turns the SONiC tables of one switch into the queues of its ports, and counts as syncd does.

It knows nothing of qclimb: what `QCLIMB_*` rows say reaches it only as the QoS rows that switchd makes of them.
"""
