"""Checks and migrates the schema version of a database."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from store.errors import SchemaMismatch

EXIT_CODE = 3  # of a process that does not match its schema; a restart would not help

_VERSION_TABLE = "alembic_version"
_MIGRATION_LOCK = 0x64346D6967  # any number that no other program uses on this PostgreSQL server


def newest() -> str:
    """The schema version of this program."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def version(connection: Connection) -> str | None:
    """The schema version of the database; None if it has no tables."""
    # Alembic's own query logs two lines at every start of a process.
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return found


def migrate(engine: Engine) -> None:
    """Migrates to this program's schema; safe if several processes do so at once."""
    config = _config()
    with engine.begin() as connection:
        if engine.dialect.name != "sqlite":  # in SQLite the transaction itself is exclusive
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
            )
        _refuse_newer(version(connection))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def require(engine: Engine) -> None:
    """Creates the tables of an empty database; raises `SchemaMismatch` for another version.

    Existing tables are changed only by `python -m store migrate`.
    """
    with engine.connect().execution_options(reading=True) as connection:
        found = version(connection)
    if found is None:
        migrate(engine)
        return
    _refuse_newer(found)
    if found != newest():
        raise SchemaMismatch(
            f"the database has schema {found}, but this program needs {newest()}: stop all APIs "
            "and workers, run `python -m store migrate` once, and start them again"
        )


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"the database has schema {found}, but this program only knows schemas up to "
            f"{newest()}: it is older than its database; run the version that migrated it"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
