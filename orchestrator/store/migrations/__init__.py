"""From the tables of each older version to today's; Alembic runs them in order."""
