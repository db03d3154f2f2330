"""Copies an SQLite database while it is in use."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from store.database.sessions import Database
from store.errors import Conflict


def back_up(database: Database, target: Path) -> int:
    """Writes a consistent copy of the database to a new file; returns its bytes.

    Copy the artifacts afterwards: every artifact is written before the row that refers to it.
    """
    source = database.engine.url.database
    if not database.is_sqlite or not source:
        raise Conflict(
            "the database is PostgreSQL; use `pg_dump --format custom`, as docs/operations.md says"
        )
    if target.exists():
        raise Conflict(f"{target} exists; name a new file")
    unfinished = target.with_name(f"{target.name}.tmp")
    unfinished.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(unfinished)) as copy:
            live.backup(copy)  # at once, in one transaction
        with open(unfinished, "rb") as written:
            os.fsync(written.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size
