"""Runs the migrations with Alembic, within the caller's transaction."""

from __future__ import annotations

import io
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(connection: Connection, target: str) -> None:
    command.upgrade(_config(connection), target)


def downgrade(connection: Connection, target: str) -> None:
    command.downgrade(_config(connection), target)


def printed(dialect: str, found: str | None, target: str) -> str:
    """The SQL of a migration from the found version, or from an empty database; runs nothing."""
    written = io.StringIO()
    config = _config(output=written)
    config.attributes["dialect"] = dialect
    move = command.upgrade if found is None or found <= target else command.downgrade
    move(config, f"{found or 'base'}:{target}", sql=True)
    return written.getvalue()


def revisions() -> list[str]:
    """The versions that Alembic reads from the code of the migrations, oldest first."""
    scripts = ScriptDirectory.from_config(_config()).walk_revisions()
    return sorted(script.revision for script in scripts)


def _config(connection: Connection | None = None, output: io.StringIO | None = None) -> Config:
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(Path(__file__).parent))
    if connection is not None:
        config.attributes["connection"] = connection
    return config
