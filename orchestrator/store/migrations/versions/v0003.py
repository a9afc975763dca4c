"""Tokens may end."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Those that there are never do."""
    op.add_column("tokens", sa.Column("expires_at", sa.Float))
