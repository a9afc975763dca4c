"""Each device of a rollout gets a row of its own; it was in the rollout's document."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column

revision = "0002"
down_revision = "0001"

KINDS = ("switches", "hosts")

Whole = sa.BigInteger().with_variant(sa.Integer, "sqlite")
rollouts = sa.table("rollouts", sa.column("id"), sa.column("document", sa.JSON))


def upgrade() -> None:
    """Of rollouts that have ended, too."""
    steps = op.create_table(
        "rollout_steps",
        Column("rollout", Whole, primary_key=True, autoincrement=False),
        Column("kind", sa.String, primary_key=True),
        Column("name", sa.String, primary_key=True),
        Column("phase", sa.String, nullable=False),
        Column("step", sa.JSON, nullable=False),
    )
    connection = op.get_bind()
    for number, document in connection.execute(sa.select(rollouts.c.id, rollouts.c.document)).all():
        rows = [
            {"rollout": number, "kind": kind, "name": name, "phase": step["phase"], "step": step}
            for kind in KINDS
            for name, step in document.get(kind, {}).items()
        ]
        if rows:
            op.bulk_insert(steps, rows)
        whole = {key: value for key, value in document.items() if key not in KINDS}
        connection.execute(sa.update(rollouts).where(rollouts.c.id == number).values(document=whole))
