"""Recordings of real programs: what `qclimb lab record` runs, all of it under libqclimb.so in mode observe.

`site` builds a fabric without a control plane and collects records as hostd does; `web`, `kv`, `training` and `spark`
are one traffic each; `programs/` are the programs of our own in them. The file format is `qclimb.recording`.
"""
