"""Forests: from a recording's rows to a checked model, and whether it still holds."""
