"""`qclimb lab run bigspine`: MP-MLFQ over real spines and real TCP, beside MLFQ over ECMP."""
