"""Programs that experiments run in hosts."""
