"""The audit log on a real PostgreSQL server: late commits, two leaders, protected rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError

from d4explain.contracts.receipts.audit_chain import verified
from store.audit import chain
from store.database.audit_entries import Action, note
from store.database.sessions import Database
from store.database.tables.audit import AuditEntry, Outcome, Source


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[Database]:
    database = Database(postgres_url)
    database.migrate()
    yield database
    database.close()


def act(database: Database, tenant: str, name: str = "act") -> None:
    with database.transaction() as session:
        note(session, Action(name, tenant))


def chain_all(database: Database) -> int:
    with database.transaction() as session:
        return chain.chain(session)


def lines(database: Database, tenant: str) -> list[str]:
    with database.reading() as session:
        return [entry.line() for entry in chain.page(session, tenant, 0, 100_000)]


def test_an_entry_that_is_committed_late_gets_a_later_place(database: Database) -> None:
    slow = AuditEntry(tenant_id="late", source=Source.API, action="slow", outcome=Outcome.DONE)
    with database.transaction() as session:
        session.add(slow)
        session.flush()
        act(database, "late", "fast")
        chain_all(database)
    chain_all(database)
    found = lines(database, "late")
    assert ['"fast"' in line for line in found] == [True, False]
    assert verified(found).position == 2


def test_leaders_that_chain_at_once_make_one_unbroken_chain(database: Database) -> None:
    writing = threading.Event()

    def write(number: int) -> None:
        for _ in range(60):
            act(database, f"busy{number % 2}")

    def lead() -> None:
        while not writing.is_set():
            try:
                chain_all(database)
            except (IntegrityError, OperationalError, DatabaseError):
                continue  # the other leader was first; this one tries again

    with ThreadPoolExecutor(6) as threads:
        leaders = [threads.submit(lead) for _ in range(2)]
        for writer in [threads.submit(write, number) for number in range(4)]:
            writer.result()
        writing.set()
        for leader in leaders:
            leader.result()
    chain_all(database)
    for tenant in ("busy0", "busy1"):
        assert verified(lines(database, tenant)).position == 120


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit_log SET action = 'x'",
        "UPDATE audit_log SET position = 700, chain_sha256 = 'x' WHERE position = 1",
        "UPDATE audit_log SET position = 700, action = 'x' WHERE position IS NULL",
        "DELETE FROM audit_log",
        "TRUNCATE audit_log",
        "TRUNCATE signing_keys",
    ],
)
def test_rows_are_never_changed_or_removed(database: Database, change: str) -> None:
    act(database, "kept")
    chain_all(database)
    act(database, "kept")
    with database.reading() as session:
        before = session.scalar(select(func.count()).select_from(AuditEntry))
    with pytest.raises(DatabaseError, match="never changed"), database.transaction() as session:
        session.execute(text(change))
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(AuditEntry)) == before
