"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0001"
down_revision = None

Whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """From an empty database."""
    op.create_table("settings", Column("key", sa.String, primary_key=True), Column("value", sa.JSON, nullable=False))
    op.create_table(
        "switches",
        Column("name", sa.String, primary_key=True),
        Column("address", sa.String, nullable=False),
        Column("role", sa.String, nullable=False),
        Column("server_name", sa.String),
        Column("applied_generation", Whole, nullable=False),
    )
    op.create_table(
        "hosts",
        Column("name", sa.String, primary_key=True),
        Column("policy_generation", Whole, nullable=False),
        Column("seen_at", sa.Float),
    )
    op.create_table(
        "tokens",
        Column("id", Whole, primary_key=True),
        Column("name", sa.String, nullable=False),
        Column("role", sa.String, nullable=False),
        Column("digest", sa.String, nullable=False, unique=True),
        Column("created_at", sa.Float, nullable=False),
        Column("revoked", sa.Boolean, nullable=False),
    )
    op.create_table(
        "batches",
        Column("id", Whole, primary_key=True),
        Column("label", sa.String, nullable=False, index=True),
        Column("host", sa.String, nullable=False),
        Column("received_at", sa.Float, nullable=False),
        Column("flows", Whole, nullable=False),
        Column("rows", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "recordings",
        Column("label", sa.String, primary_key=True),
        Column("host", sa.String, primary_key=True),
        Column("histogram", sa.JSON, nullable=False),
        Column("received", Whole, nullable=False),
        Column("dropped_at_host", Whole, nullable=False),
        Column("aged_out", Whole, nullable=False),
    )
    op.create_table(
        "models",
        Column("generation", Whole, primary_key=True),
        Column("label", sa.String, nullable=False),
        Column("created_at", sa.Float, nullable=False),
        Column("report", sa.JSON, nullable=False),
        Column("onnx", sa.LargeBinary, nullable=False),
        Column("forest", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "revisions",
        Column("id", Whole, primary_key=True),
        Column("created_at", sa.Float, nullable=False),
        Column("created_by", sa.String, nullable=False),
        Column("document", sa.JSON, nullable=False),
    )
    op.create_table(
        "rollouts",
        Column("id", Whole, primary_key=True),
        Column("revision", Whole, nullable=False),
        Column("phase", sa.String, nullable=False, index=True),
        Column("created_at", sa.Float, nullable=False),
        Column("created_by", sa.String, nullable=False),
        Column("document", sa.JSON, nullable=False),
    )
    op.create_table(
        "answers",
        Column("key", sa.String, primary_key=True),
        Column("created_at", sa.Float, nullable=False),
        Column("status", Whole, nullable=False),
        Column("body", sa.JSON, nullable=False),
    )
    op.create_table(
        "audit",
        Column("id", Whole, primary_key=True),
        Column("at", sa.Float, nullable=False),
        Column("actor", sa.String, nullable=False),
        Column("action", sa.String, nullable=False),
        Column("subject", sa.String, nullable=False),
    )
