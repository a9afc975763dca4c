"""Benchmarks, each a ratio to a reference in the same run; a tool of the checkout, not installed."""
