"""orchagent and the ASIC below it, as a pure machine: rows of SONiC's tables in as events, objects out.

One file a family of tables; the rules of one row alone are `qclimb.orchagent`'s. Nothing here knows redis, a clock or
the kernel, and nothing knows qclimb.
"""
