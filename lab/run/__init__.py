"""Experiments in the fabric: a file or a folder each."""
