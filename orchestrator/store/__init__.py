"""What is remembered, in one SQLite file."""
