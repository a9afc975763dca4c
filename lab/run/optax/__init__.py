"""OPTAX in the lab: many tasks fetch from eight senders through one port, bare and under libqclimb.so."""
