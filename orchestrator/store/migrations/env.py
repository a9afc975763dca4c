"""Alembic runs this: the open transaction is handed in by store.schema, which alone knows how to get one."""

from alembic import context

from orchestrator.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
