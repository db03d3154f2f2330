"""Checks and migrates the schema version of a database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, column, func, inspect, select, table, text

from d4explain.contracts.errors import quoted
from store.database.clock import now
from store.errors import Conflict, SchemaMismatch

EXIT_CODE = 3  # of a process that does not match its schema; a restart would not help

_VERSIONS = Path(__file__).parent / "migrations" / "versions"
_VERSION_TABLE = "alembic_version"
_MIGRATION_LOCK = 0x64346D6967  # any number that no other program uses on this PostgreSQL server
_WORKER_SECONDS = 30.0  # a worker without a heartbeat for this long has stopped


@dataclass(frozen=True)
class Loss:
    """What a downgrade removes: a table, a column, or some rows of a table."""

    what: str
    rows: int

    def __str__(self) -> str:
        return f"{self.what} ({self.rows} rows)"


class DataLoss(Conflict):
    """A downgrade would remove data, and nobody agreed to that."""

    def __init__(self, lost: list[Loss]) -> None:
        listed = "; ".join(map(str, lost))
        super().__init__(
            f"the older schema has no place for {listed}; nothing was changed. Make a backup, then "
            "add --discard to remove it"
        )


def newest() -> str:
    """The schema version of this program."""
    return known_versions()[-1]


def version(connection: Connection) -> str | None:
    """The schema version of the database; None if it has no tables."""
    # Alembic's own query logs two lines at every start of a process.
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {_VERSION_TABLE}"))
    return found


def migrate(engine: Engine, target: str | None = None, *, discard: bool = False) -> list[Loss]:
    """Migrates to a schema version, by default this program's; returns what an older one lost.

    It is safe if several processes do so at once. A downgrade needs stopped processes, and
    `discard` if it removes data; otherwise it raises `Conflict` and changes nothing.
    """
    from store.database.migrations import alembic_commands  # noqa: PLC0415 - 14 MB, rarely needed

    target = _known(target or newest())
    with engine.begin() as connection:
        if engine.dialect.name != "sqlite":  # in SQLite the transaction itself is exclusive
            connection.execute(
                text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK}
            )
        found = version(connection)
        _refuse_newer(found)
        if found is None or found <= target:
            alembic_commands.upgrade(connection, target)
            return []
        _refuse_running(connection)
        before = _contents(connection)
        alembic_commands.downgrade(connection, target)
        lost = _lost(before, _contents(connection))
        if lost and not discard:
            raise DataLoss(lost)  # rolls the downgrade back
        return lost


def statements(engine: Engine, target: str | None = None) -> str:
    """The SQL that `migrate` would run on this PostgreSQL database, for a review; runs nothing."""
    from store.database.migrations import alembic_commands  # noqa: PLC0415 - as above

    target = _known(target or newest())
    if engine.dialect.name == "sqlite":
        raise Conflict(
            "--sql needs PostgreSQL: in SQLite, Alembic builds some tables anew from the rows that "
            "it finds"
        )
    with engine.connect() as connection:
        found = version(connection)
    _refuse_newer(found)
    return alembic_commands.printed(engine.dialect.name, found, target)


def require(engine: Engine) -> None:
    """Creates the tables of an empty database; raises `SchemaMismatch` for another version.

    Existing tables are changed only by `python -m store migrate`.
    """
    with engine.connect().execution_options(reading=True) as connection:
        found = version(connection)
    if found is None:
        migrate(engine)
        return
    _refuse_newer(found)
    if found != newest():
        raise SchemaMismatch(
            f"the database has schema {found}, but this program needs {newest()}: stop all APIs "
            "and workers, run `python -m store migrate` once, and start them again"
        )


def _refuse_newer(found: str | None) -> None:
    if found is not None and found not in known_versions():
        raise SchemaMismatch(
            f"the database has schema {found}, but this program only knows schemas up to "
            f"{newest()}: it is older than its database; run the version that migrated it"
        )


def _known(target: str) -> str:
    if target not in known_versions():
        raise SchemaMismatch(
            f"there is no schema {quoted(target)}; this program knows {', '.join(known_versions())}"
        )
    return target


def known_versions() -> list[str]:
    """By the names of the files, because reading their code needs Alembic; a test compares."""
    names = (file.name for file in _VERSIONS.glob("v[0-9]*_*.py"))
    return sorted(name[1:].split("_")[0] for name in names)


def _refuse_running(connection: Connection) -> None:
    """A process that runs would write what the older schema cannot hold."""
    # Not the classes of `tables`: they may have columns that this schema lacks.
    workers = table("workers", column("name"), column("seen_at"))
    leads = table("leads", column("owner"), column("lease_until"))
    live = select(workers.c.name).where(workers.c.seen_at > now() - _WORKER_SECONDS)
    leading = select(leads.c.owner).where(leads.c.lease_until > now())
    running = [f"worker {name}" for name in connection.scalars(live)]
    running += [f"API {owner}" for owner in connection.scalars(leading)]
    if running:
        raise Conflict(
            f"these processes use the database: {', '.join(running)}; stop all APIs and workers "
            f"first (a killed worker counts as stopped after {_WORKER_SECONDS:.0f} s)"
        )


def _contents(connection: Connection) -> dict[str, tuple[set[str], int]]:
    """The columns and the number of rows of every table."""
    inspector = inspect(connection)
    contents = {}
    for name in inspector.get_table_names():
        columns = {found["name"] for found in inspector.get_columns(name)}
        rows = connection.scalar(select(func.count()).select_from(table(name))) or 0
        contents[name] = (columns, rows)
    return contents


def _lost(
    before: dict[str, tuple[set[str], int]], after: dict[str, tuple[set[str], int]]
) -> list[Loss]:
    """Empty tables and columns of empty tables are no loss."""
    lost = []
    for name, (columns, rows) in sorted(before.items()):
        if name not in after:
            lost.append(Loss(f"table {name}", rows))
            continue
        kept, left = after[name]
        lost += [Loss(f"column {name}.{gone}", rows) for gone in sorted(columns - kept)]
        lost.append(Loss(f"rows of {name}", rows - left))
    return [loss for loss in lost if loss.rows > 0]
