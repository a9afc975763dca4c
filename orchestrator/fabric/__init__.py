"""Switches: how a rollout goes, who carries it out, and the only room that knows gNMI."""
