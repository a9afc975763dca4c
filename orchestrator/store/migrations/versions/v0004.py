"""Alembic's own table tells the version from here on.

The setting that told it before stays, with a number that qclimb-orchestrators before this one refuse.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

settings = sa.table("settings", sa.column("key", sa.String), sa.column("value", sa.JSON))


def upgrade() -> None:
    """One row."""
    op.execute(sa.delete(settings).where(settings.c.key == "schema_version"))
    op.bulk_insert(settings, [{"key": "schema_version", "value": 4}])
