"""Which version of the tables a database has, and how it gets those of this program."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from store.errors import SchemaMismatch

EXIT_CODE = 3  # of a process that does not fit its database: starting it again is of no use

_VERSION_TABLE = "alembic_version"
_MIGRATION_LOCK = 0x64346D6967  # any number that nobody else uses on this PostgreSQL


def newest() -> str:
    """The version that this program works with."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def version(connection: Connection) -> str | None:
    """The version of the database's tables; None if there are none."""
    # Alembic's own way to ask logs two lines at every start of a process.
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return found


def migrate(engine: Engine) -> None:
    """Brings the tables to this program's version; safe when several processes do so at once."""
    config = _config()
    with engine.begin() as connection:
        if engine.dialect.name != "sqlite":  # there, the transaction itself keeps others out
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
            )
        _refuse_newer(version(connection))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def require(engine: Engine) -> None:
    """Makes the tables of an empty database; raises `SchemaMismatch` for those of another version.

    To change tables that hold something is a step of its own: `python -m store migrate`.
    """
    with engine.connect().execution_options(reading=True) as connection:
        found = version(connection)
    if found is None:
        migrate(engine)
        return
    _refuse_newer(found)
    if found != newest():
        raise SchemaMismatch(
            f"the database has schema {found} and this program needs {newest()}: stop all APIs "
            "and workers, run `python -m store migrate` once, and start them again"
        )


def _refuse_newer(found: str | None) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise SchemaMismatch(
            f"the database has schema {found} and this program only knows up to {newest()}: it is "
            "older than its database; run the version that has migrated it"
        )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config
