"""A process that meets tables of another version says so and ends; one command migrates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import text

import store.database.migrations
from store.database import schema
from store.database.sessions import Database
from store.errors import SchemaMismatch
from store.settings import Settings
from store.store import Store


def with_schema(folder: Path, version: str) -> Settings:
    """A database with the tables of an older version, or the number of one that is not known."""
    settings = Settings(data_dir=folder)
    database = Database(settings.database_url)
    config = Config()
    config.set_main_option("script_location", str(Path(store.database.migrations.__file__).parent))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        known = version <= schema.newest()
        command.upgrade(config, version if known else "head")
        if not known:
            connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    database.close()
    return settings


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "D4_DATA_DIR": str(folder), "D4_REDIS_URL": "redis://127.0.0.1:1"}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_an_empty_database_gets_its_tables(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with Store.open(settings) as opened, opened.database.engine.connect() as connection:
        assert schema.version(connection) == schema.newest()
    Store.open(Settings(data_dir=tmp_path)).close()


@pytest.mark.parametrize(
    ("version", "words"),
    [("0002", "run `python -m store migrate`"), ("9999", "older than its database")],
)
def test_tables_of_another_version_are_left_alone(tmp_path: Path, version: str, words: str) -> None:
    settings = with_schema(tmp_path, version)
    with pytest.raises(SchemaMismatch, match=words):
        Store.open(settings)
    database = Database(settings.database_url)
    with database.engine.connect() as connection:
        assert schema.version(connection) == version
    database.close()


@pytest.mark.parametrize("program", ["service", "worker"])
@pytest.mark.parametrize(
    ("version", "words"),
    [("0002", "run `python -m store migrate`"), ("9999", "older than its database")],
)
def test_processes_say_it_in_one_line_and_end_with_a_code_of_their_own(
    tmp_path: Path, program: str, version: str, words: str
) -> None:
    with_schema(tmp_path, version)
    done = run(tmp_path, program)
    assert done.returncode == schema.EXIT_CODE, done.stderr
    assert words in done.stderr
    assert version in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_one_command_migrates(tmp_path: Path) -> None:
    settings = with_schema(tmp_path, "0002")
    done = run(tmp_path, "store", "migrate")
    assert (done.returncode, done.stderr) == (0, "")
    assert schema.newest() in done.stdout
    Store.open(settings).close()


def test_the_command_does_not_touch_newer_tables(tmp_path: Path) -> None:
    with_schema(tmp_path, "9999")
    done = run(tmp_path, "store", "migrate")
    assert done.returncode == schema.EXIT_CODE
    assert "older than its database" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_database_that_is_away_is_said_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "store", "migrate"],
        env={**os.environ, "D4_DATABASE_URL": "sqlite:////proc/nowhere/x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the database cannot be opened" in done.stderr
    assert len(done.stderr.splitlines()) == 1
