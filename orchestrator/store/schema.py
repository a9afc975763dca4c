"""Brings a database's tables to today's, by Alembic's migrations."""

import logging
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, inspect, select, table

from ..errors import StoreError

log = logging.getLogger(__name__)

BEFORE_ALEMBIC = {1: "0001", 2: "0002", 3: "0003"}
"""What the setting `schema_version` of versions before Alembic stands for."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    return config


def newest() -> str:
    """Today's version."""
    (found,) = ScriptDirectory.from_config(_config()).get_heads()
    return found


def version_of(connection: Connection) -> str | None:
    """Of the tables that are there, None before Alembic."""
    return MigrationContext.configure(connection).get_current_revision()


def migrate(connection: Connection) -> None:
    """Within the caller's transaction, which alone makes it all or nothing. Raises StoreError for what is not ours."""
    config = _config()
    config.attributes["connection"] = connection
    script = ScriptDirectory.from_config(config)
    present = inspect(connection).get_table_names()
    if present and "settings" not in present:
        raise StoreError("holds tables that are not qclimb's, expected an empty or a qclimb database")
    found = version_of(connection)
    known = [each.revision for each in script.walk_revisions()]
    if found is None and present:
        found = _before_alembic(connection, known[0])
        command.stamp(config, found)
    elif found is not None and found not in known:
        raise _other(found, known[0])
    if found != known[0]:
        command.upgrade(config, "head")
        log.info("tables from=%s to=%s event=migrated", found or "none", known[0])


def _before_alembic(connection: Connection, newest: str) -> str:
    settings: Any = table("settings", column("key"), column("value"))
    told = connection.scalar(select(settings.c.value).where(settings.c.key == "schema_version"))
    for number, revision in BEFORE_ALEMBIC.items():
        if str(told) == str(number):
            return revision
    raise _other(str(told), newest)


def _other(found: str, newest: str) -> StoreError:
    return StoreError(f"schema version is {found}, this qclimb-orchestrator expects {newest} or an older one")
