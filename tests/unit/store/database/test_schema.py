"""Processes refuse a database of another schema version; `python -m store migrate` upgrades it."""

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
from d4explain.contracts.scopes import DEFAULT_TENANT
from store import jobs
from store.database import schema
from store.database.migrations import alembic_commands
from store.database.sessions import Database
from store.errors import SchemaMismatch
from store.settings import Settings
from store.store import Store


def with_schema(folder: Path, version: str) -> Settings:
    """Creates a database with an older schema, or with an unknown version number."""
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


def test_the_names_of_the_files_are_the_versions_of_the_migrations() -> None:
    assert schema.known_versions() == alembic_commands.revisions()


def test_opening_an_empty_database_creates_the_tables(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with Store.open(settings) as opened, opened.database.engine.connect() as connection:
        assert schema.version(connection) == schema.newest()
    Store.open(Settings(data_dir=tmp_path)).close()


@pytest.mark.parametrize(
    ("version", "message"),
    [("0002", "run `python -m store migrate`"), ("9999", "older than its database")],
)
def test_a_schema_of_another_version_is_refused_and_not_changed(
    tmp_path: Path, version: str, message: str
) -> None:
    settings = with_schema(tmp_path, version)
    with pytest.raises(SchemaMismatch, match=message):
        Store.open(settings)
    database = Database(settings.database_url)
    with database.engine.connect() as connection:
        assert schema.version(connection) == version
    database.close()


@pytest.mark.parametrize("program", ["service", "worker"])
@pytest.mark.parametrize(
    ("version", "message"),
    [("0002", "run `python -m store migrate`"), ("9999", "older than its database")],
)
def test_processes_exit_with_a_special_code_and_a_message_of_one_line(
    tmp_path: Path, program: str, version: str, message: str
) -> None:
    with_schema(tmp_path, version)
    done = run(tmp_path, program)
    assert done.returncode == schema.EXIT_CODE, done.stderr
    assert message in done.stderr
    assert version in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_migrate_command_upgrades_the_schema(tmp_path: Path) -> None:
    settings = with_schema(tmp_path, "0002")
    done = run(tmp_path, "store", "migrate")
    assert (done.returncode, done.stderr) == (0, "")
    assert schema.newest() in done.stdout
    Store.open(settings).close()


def test_the_migrate_command_refuses_a_newer_schema(tmp_path: Path) -> None:
    with_schema(tmp_path, "9999")
    done = run(tmp_path, "store", "migrate")
    assert done.returncode == schema.EXIT_CODE
    assert "older than its database" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_unreachable_database_gives_a_message_of_one_line(tmp_path: Path) -> None:
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


def test_the_migrate_command_goes_back_to_an_earlier_schema(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    with Store.open(settings) as opened, opened.database.transaction() as session:
        jobs.submit(session, kind=jobs.JobKind.PREDICT, tenant=DEFAULT_TENANT)
    refused = run(tmp_path, "store", "migrate", "--to", "0010")
    assert refused.returncode == 1
    lost = "column jobs.format (1 rows); column jobs.waiting_for_shards (1 rows)"
    assert f"{lost}; nothing was changed" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    done = run(tmp_path, "store", "migrate", "--to", "0010", "--discard")
    assert (done.returncode, done.stderr) == (0, "")
    assert "store: removed column jobs.format (1 rows)" in done.stdout
    assert done.stdout.endswith("store: the database has schema 0010\n")
    unknown = run(tmp_path, "store", "migrate", "--to", "0999")
    assert unknown.returncode == schema.EXIT_CODE
    assert "there is no schema '0999'" in unknown.stderr
