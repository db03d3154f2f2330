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

from sqlalchemy import Connection, Engine, create_engine, event, make_url, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from store.database import job_totals, schema
from store.database.clock import now
from store.database.job_policy import JobPolicy, session_info

__all__ = ["OUTAGES", "CommitUnknownError", "Database", "now", "read_clock"]

# The database is away, locked or full: nothing about what was asked of it.
OUTAGES: tuple[type[Exception], ...] = (OperationalError, PoolTimeoutError)

CONNECTIONS = 40
_KEPT_CONNECTIONS = 10  # of an idle process
_POOL_SECONDS = 10
_BUSY_SECONDS = 30
# What the sessions of `reading` ask for. SQLite's view is consistent in any transaction;
# PostgreSQL's default level shows each statement what was committed before that statement.
_READING: dict[str, dict[str, Any]] = {
    "sqlite": {"reading": True},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
_CLOCK = select(now())


class CommitUnknownError(OperationalError):
    """The connection was lost during COMMIT: the transaction is there as a whole or not at all."""


class Database:
    """`connections` is how many threads may use it at once without waiting for each other."""

    def __init__(
        self, url: str, *, policy: JobPolicy | None = None, connections: int = CONNECTIONS
    ) -> None:
        self.policy = policy or JobPolicy()
        self.engine = _engine(url, connections)
        self._reader = self.engine.execution_options(**_READING.get(self.engine.dialect.name, {}))
        # Writers of one process take turns on SQLite: those that find its file locked sleep and
        # look again, ever less often, while others come and go.
        self._turn: AbstractContextManager[object] = RLock() if self.is_sqlite else nullcontext()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def folder(self) -> Path | None:
        """Where SQLite's file is; None for a database elsewhere or in memory."""
        file = self.engine.url.database
        return Path(file).absolute().parent if self.is_sqlite and file else None

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """One write transaction: committed at the end, rolled back on any exception.

        Only `CommitUnknownError` leaves it open whether the transaction was committed.
        """
        with self._turn, self._session(self.engine) as session:
            yield session
            job_totals.write(session)
            session.flush()
            _commit(session)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view: all statements see the database as the first one did.

        It takes no locks, waits for nobody and writes nothing.
        """
        with self._session(self._reader) as session:
            try:
                yield session
            finally:
                # What was read stays readable, as after a commit.
                session.expunge_all()
                session.rollback()

    def migrate(self) -> None:
        """Brings the tables to this program's version."""
        schema.migrate(self.engine)

    def require_schema(self) -> None:
        """Makes the tables of an empty database; raises `SchemaMismatch` for other versions."""
        schema.require(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    def _session(self, engine: Engine) -> Session:
        return Session(engine, expire_on_commit=False, info=dict(session_info(self.policy)))


def read_clock(session: Session) -> float:
    """Seconds since the epoch by the database's clock."""
    return float(session.connection().execute(_CLOCK).scalar_one())


def _commit(session: Session) -> None:
    if not session.in_transaction():
        return
    connection = session.connection()
    try:
        session.commit()
    except DBAPIError as error:
        # After a refused COMMIT the transaction is still open, and SQLAlchemy would give the
        # connection, with its locks, to the next one who asks.
        connection.invalidate()
        if _is_refusal(error):
            raise
        raise CommitUnknownError(
            error.statement,
            error.params,
            error.orig,  # type: ignore[arg-type]
            connection_invalidated=error.connection_invalidated,
        ) from error


def _is_refusal(error: DBAPIError) -> bool:
    """Whether the database itself said that it has not committed."""
    if isinstance(error.orig, sqlite3.Error):
        # After an I/O error the write-ahead log may hold the transaction or not.
        code = int(getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_IOERR))
        return code & 0xFF != sqlite3.SQLITE_IOERR
    return getattr(error.orig, "sqlstate", None) is not None and not error.connection_invalidated


def _engine(url: str, connections: int) -> Engine:
    parsed = make_url(url)
    kept = min(_KEPT_CONNECTIONS, connections)
    pool = {
        "pool_size": kept,
        "max_overflow": connections - kept,
        "pool_timeout": _POOL_SECONDS,
    }
    serializer = partial(json.dumps, allow_nan=False, ensure_ascii=False)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(
            parsed,
            json_serializer=serializer,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5},
            **pool,
        )
    if parsed.database:
        Path(parsed.database).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine = create_engine(
        parsed,
        json_serializer=serializer,
        connect_args={"timeout": _BUSY_SECONDS},
        **pool,
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
