"""INSERT ... ON CONFLICT, which SQLite and PostgreSQL have alike, and SQLAlchemy once for each."""

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def upsert(connection: Connection, table: Table) -> Any:
    """An insert with `on_conflict_do_update` and `on_conflict_do_nothing`, for the database behind a connection."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
