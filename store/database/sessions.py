"""Opens the database and provides transactions, alike for SQLite and PostgreSQL."""

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

from store.database import (
    artifact_ledger,
    audit_entries,
    job_totals,
    observations,
    quotas,
    schema,
    webhook_outbox,
)
from store.database.clock import now
from store.database.job_policy import JobPolicy, session_info

__all__ = ["OUTAGES", "CommitUnknownError", "Database", "now", "read_clock"]

# The database is unreachable, locked or full; the request itself is not at fault.
OUTAGES: tuple[type[Exception], ...] = (OperationalError, PoolTimeoutError)

CONNECTIONS = 40
_KEPT_CONNECTIONS = 10  # of an idle process
_POOL_SECONDS = 10
# A machine that vanishes within a transaction would keep its locks until TCP gives up, after hours.
_POSTGRES_OPTIONS = "-c idle_in_transaction_session_timeout=60s"
_BUSY_SECONDS = 30
# Options of the sessions of `reading`. A SQLite transaction always has a consistent view; at
# PostgreSQL's default level, each statement sees what was committed before it.
_READING: dict[str, dict[str, Any]] = {
    "sqlite": {"reading": True},
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
_CLOCK = select(now())


class CommitUnknownError(OperationalError):
    """The connection was lost during COMMIT: the transaction is committed or rolled back."""


class Database:
    """A database; `connections` is the number of threads that can use it at once."""

    def __init__(
        self,
        url: str,
        *,
        policy: JobPolicy | None = None,
        connections: int = CONNECTIONS,
        artifact_size: artifact_ledger.SizeOf | None = None,
        limits: quotas.Limits | None = None,
        publish: observations.Publish = observations.publish_nothing,
    ) -> None:
        self.policy = policy or JobPolicy()
        self._publish = publish
        self._session_info = {
            **session_info(self.policy),
            **artifact_ledger.session_info(artifact_size),
            **quotas.session_info(limits or quotas.Limits()),
        }
        self.engine = _engine(url, connections)
        self._reader = self.engine.execution_options(**_READING.get(self.engine.dialect.name, {}))
        # Serialise the SQLite writers of a process: a writer that finds the file locked would
        # sleep for ever longer times while others overtake it.
        self._write_lock: AbstractContextManager[object] = (
            RLock() if self.is_sqlite else nullcontext()
        )

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def folder(self) -> Path | None:
        """The folder of the SQLite file; None for a database in memory or on a server."""
        file = self.engine.url.database
        return Path(file).absolute().parent if self.is_sqlite and file else None

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """One write transaction: committed at the end, rolled back on any exception.

        After a `CommitUnknownError` it is unknown whether the transaction was committed.
        """
        with self._write_lock, self._session(self.engine) as session:
            yield session
            job_totals.write(session)
            webhook_outbox.write(session)
            artifact_ledger.write(session)
            quotas.write(session)
            audit_entries.write(session)
            session.flush()
            _commit(session)
        observed = observations.take(session)
        if observed:
            self._publish(observed)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A read-only transaction: all statements see the same state of the database.

        It takes no locks and does not wait for writers.
        """
        with self._session(self._reader) as session:
            try:
                yield session
            finally:
                # Loaded objects stay readable, as after a commit.
                session.expunge_all()
                session.rollback()

    def migrate(self, target: str | None = None, *, discard: bool = False) -> list[schema.Loss]:
        """Migrates the tables to a schema version, by default this program's."""
        return schema.migrate(self.engine, target, discard=discard)

    def require_schema(self) -> None:
        """Creates the tables of an empty database; raises `SchemaMismatch` for other versions."""
        schema.require(self.engine)

    def close(self) -> None:
        self.engine.dispose()

    def _session(self, engine: Engine) -> Session:
        return Session(engine, expire_on_commit=False, info=dict(self._session_info))


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
        # After a refused COMMIT the transaction is still open, and SQLAlchemy would reuse the
        # connection together with its locks.
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
    """Whether the database reported that it did not commit."""
    if isinstance(error.orig, sqlite3.Error):
        # After an I/O error the write-ahead log may or may not contain the transaction.
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
            connect_args={"connect_timeout": 5, "options": _POSTGRES_OPTIONS},
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
    connection.isolation_level = None  # the driver must not begin its own transactions
    connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    connection.execute("PRAGMA foreign_keys=ON")
    # FULL: an accepted request survives a power loss.
    connection.execute("PRAGMA synchronous=FULL")
    for _attempt in range(100):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except (
            sqlite3.OperationalError
        ):  # another process switches the mode; the busy handler does not apply
            time.sleep(0.02)
    connection.execute("PRAGMA journal_mode=WAL")


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE: otherwise a transaction that reads first and then writes would fail with
    # SQLITE_BUSY at once if another transaction wrote in between.
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN DEFERRED" if reading else "BEGIN IMMEDIATE")
