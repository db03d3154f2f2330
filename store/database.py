"""Opens the database and hands out transactions; SQLite and PostgreSQL behave alike here."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, event, make_url, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from store.clock import now
from store.job_policy import JobPolicy, session_info

__all__ = ["OUTAGES", "Database", "now", "read_clock"]

# The database is away, locked or full: nothing about what was asked of it.
OUTAGES: tuple[type[Exception], ...] = (OperationalError, PoolTimeoutError)

_BUSY_SECONDS = 30
_CLOCK = select(now())
_MIGRATION_LOCK = 0x64346D6967  # any number that nobody else uses on this PostgreSQL


class Database:
    def __init__(self, url: str, *, policy: JobPolicy | None = None) -> None:
        self.policy = policy or JobPolicy()
        self.engine = _engine(url)
        self._reader = self.engine.execution_options(reading=True)
        # Writers of one process take turns on SQLite: those that find its file locked sleep and
        # look again, ever less often, while others come and go.
        self._turn: AbstractContextManager[object] = RLock() if self.is_sqlite else nullcontext()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """One write transaction: committed at the end, rolled back on any exception."""
        with self._turn, self._session(self.engine) as session, session.begin():
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view that never waits for writers; anything written is rolled back."""
        with self._session(self._reader) as session:
            try:
                yield session
            finally:
                # What was read stays readable, as after a commit.
                session.expunge_all()
                session.rollback()

    def migrate(self) -> None:
        """Brings the schema to the newest version; safe when several processes start at once."""
        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.engine.begin() as connection:
            if not self.is_sqlite:  # on SQLite the transaction itself keeps others out
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
                )
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        self.engine.dispose()

    def _session(self, engine: Engine) -> Session:
        return Session(engine, expire_on_commit=False, info=dict(session_info(self.policy)))


def read_clock(session: Session) -> float:
    """Seconds since the epoch by the database's clock."""
    return float(session.connection().execute(_CLOCK).scalar_one())


def _engine(url: str) -> Engine:
    parsed = make_url(url)
    serializer = partial(json.dumps, allow_nan=False, ensure_ascii=False)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(
            parsed,
            json_serializer=serializer,
            pool_pre_ping=True,
            pool_size=10,
            max_overflow=30,
            connect_args={"connect_timeout": 5},
        )
    if parsed.database:
        Path(parsed.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = create_engine(
        parsed,
        json_serializer=serializer,
        pool_size=10,
        max_overflow=30,
        connect_args={"timeout": _BUSY_SECONDS},
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions of its own
    connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys=ON")
    # FULL: what was answered with 202 survives a power loss.
    connection.execute("PRAGMA synchronous=FULL")
    for _attempt in range(100):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:  # another process is switching; no busy handler runs here
            time.sleep(0.02)
    connection.execute("PRAGMA journal_mode=WAL")


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE: a transaction that reads first and writes later would otherwise fail with
    # SQLITE_BUSY, without waiting, when another one wrote in between.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN DEFERRED" if reading else "BEGIN IMMEDIATE")
