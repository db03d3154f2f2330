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


def test_migrations_create_exactly_the_declared_tables(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []


def test_every_table_has_a_tenant_column() -> None:
    assert all("tenant_id" in table.columns for table in Table.metadata.tables.values())


def test_concurrent_migrations_succeed(tmp_path: Path) -> None:
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


def test_a_failed_transaction_writes_nothing(database: Database) -> None:
    def write_and_raise() -> None:
        with database.transaction() as session:
            session.add(lead())
            session.flush()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_raise()
    with database.reading() as session:
        assert session.scalars(select(Lead)).all() == []


def test_reads_do_not_wait_for_writers_and_rows_remain_usable_afterwards(
    database: Database,
) -> None:
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


def test_the_database_clock_is_correct_to_milliseconds(database: Database) -> None:
    with database.reading() as session:
        assert read_clock(session) == pytest.approx(time.time(), abs=1)
        first = read_clock(session)
        time.sleep(0.02)
        assert 0.01 < read_clock(session) - first < 1


def test_a_store_uses_its_settings(tmp_path: Path) -> None:
    settings = Settings.from_environment({"D4_DATA_DIR": str(tmp_path), "D4_MAX_ATTEMPTS": "7"})
    with Store.open(settings) as store:
        assert store.database.policy.max_attempts == 7
        assert (
            store.artifacts.of("default").get(store.artifacts.of("default").put(b"data")) == b"data"
        )
        with store.database.reading() as session:
            assert session.scalars(select(Lead)).all() == []
    assert {path.name for path in tmp_path.iterdir()} >= {"d4explain.sqlite", "artifacts"}


def test_statements_that_read_the_clock_are_compiled_once(database: Database) -> None:
    compiled: dict[object, object] = {}
    with database.engine.connect() as connection:
        caching = connection.execution_options(compiled_cache=compiled)
        for _ in range(3):
            caching.execute(select(Lead.name).where(Lead.lease_until < now()))
    assert len(compiled) == 1


def test_writers_of_one_process_exclude_each_other(database: Database) -> None:
    """Without a lock, concurrent increments would be lost or fail."""
    with database.transaction() as session:
        session.add(lead())

    def increment(_: int) -> None:
        for _ in range(10):
            with database.transaction() as session:
                session.get_one(Lead, "a").lease_until += 1

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(increment, range(6)))
    with database.reading() as session:
        assert session.get_one(Lead, "a").lease_until == 60.0
