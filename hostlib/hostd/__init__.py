"""qclimb-hostd: one small process a host, between the shims and the orchestrator.

Two threads and no more. The main one waits for flow records and never touches the network; the other one talks HTTPS
and sleeps between polls. What hostd keeps under `/run/qclimb` stays when it goes: the shims then run on with the last
policy.
"""
