from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.database.sessions import Database


@pytest.fixture
def database(tmp_path: Path, _empty_database: Path) -> Iterator[Database]:
    """A new SQLite database with all tables and no rows."""
    path = tmp_path / "test.sqlite"
    shutil.copy(_empty_database, path)
    database = Database(f"sqlite:///{path}")
    yield database
    database.close()
