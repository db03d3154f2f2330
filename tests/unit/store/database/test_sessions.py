from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import select, text

from store.database.sessions import Database, now, read_clock
from store.database.tables import Lead, Table
from store.settings import Settings
from store.store import Store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'store' / 'test.sqlite'}")
    database.migrate()
    yield database
    database.close()


def test_migrations_build_exactly_the_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_every_table_knows_its_tenant() -> None:
    assert all("tenant_id" in table.columns for table in Table.metadata.tables.values())


def test_processes_may_migrate_at_the_same_time(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'test.sqlite'}"

    def migrate(_: int) -> None:
        database = Database(url)
        try:
            database.migrate()
        finally:
            database.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, range(4)))
    database = Database(url)
    with database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM alembic_version")) == 1
    database.close()


def test_sqlite_is_durable_and_strict(database: Database) -> None:
    with database.reading() as session:
        pragmas = {
            name: session.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    full, on = 2, 1
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": full,
        "foreign_keys": on,
        "busy_timeout": 30_000,
    }


def lead(name: str = "a") -> Lead:
    return Lead(name=name, owner="me", lease_until=0.0)


def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    def half() -> None:
        with database.transaction() as session:
            session.add(lead())
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    with database.reading() as session:
        assert session.scalars(select(Lead)).all() == []


def test_reading_does_not_wait_for_a_writer_and_rows_outlive_it(database: Database) -> None:
    with database.transaction() as session:
        session.add(lead())
    with database.transaction() as writer:
        writer.add(lead("b"))
        writer.flush()
        started = time.monotonic()
        with database.reading() as session:
            seen = session.scalars(select(Lead)).all()
        assert time.monotonic() - started < 5
    assert [row.name for row in seen] == ["a"]


def test_writers_wait_for_each_other(database: Database) -> None:
    with database.transaction() as session:
        session.add(lead())

    def add(_: int) -> None:
        with database.transaction() as session:
            row = session.get_one(Lead, "a")
            row.lease_until += 1  # read, then written: lost without the lock

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(20)))
    with database.reading() as session:
        assert session.get_one(Lead, "a").lease_until == 20


def test_the_clock_is_the_databases_and_fine_enough(database: Database) -> None:
    with database.reading() as session:
        assert read_clock(session) == pytest.approx(time.time(), abs=1)
        first = read_clock(session)
        time.sleep(0.02)
        assert 0.01 < read_clock(session) - first < 1


def test_a_store_opens_by_its_settings(tmp_path: Path) -> None:
    settings = Settings.from_environment({"D4_DATA_DIR": str(tmp_path), "D4_MAX_ATTEMPTS": "7"})
    with Store.open(settings) as store:
        assert store.database.policy.max_attempts == 7
        assert store.artifacts.get(store.artifacts.put(b"kept")) == b"kept"
        with store.database.reading() as session:
            assert session.scalars(select(Lead)).all() == []
    assert {path.name for path in tmp_path.iterdir()} >= {"d4explain.sqlite", "artifacts"}


def test_statements_with_the_clock_are_compiled_once(database: Database) -> None:
    compiled: dict[object, object] = {}
    with database.engine.connect() as connection:
        caching = connection.execution_options(compiled_cache=compiled)
        for _ in range(3):
            caching.execute(select(Lead.name).where(Lead.lease_until < now()))
    assert len(compiled) == 1


def test_writers_of_one_process_take_turns(database: Database) -> None:
    """SQLite lets only one of them write; the others neither fail nor see half of it."""

    def count_up(_: int) -> None:
        for _ in range(10):
            with database.transaction() as session:
                lead = session.scalars(select(Lead)).one()
                lead.lease_until += 1

    with database.transaction() as session:
        session.add(Lead(name="x", owner="o", lease_until=0.0))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(count_up, range(6)))
    with database.reading() as session:
        assert session.scalars(select(Lead.lease_until)).one() == 60.0
