"""The audit log: written with its action, chained after the commit, never changed."""

from __future__ import annotations

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DatabaseError

from d4explain.contracts.receipts.audit_chain import verified
from store.audit import chain
from store.database import audit_entries
from store.database.audit_entries import Action, acting, note
from store.database.sessions import Database
from store.database.tables.audit import AuditEntry, SigningKey


def act(database: Database, *names: str, tenant: str = "one") -> None:
    with database.transaction() as session:
        for name in names:
            note(session, Action(name, tenant))


def lines(database: Database, tenant: str = "one") -> list[str]:
    with database.reading() as session:
        return [entry.line() for entry in chain.page(session, tenant, 0, 1000)]


def chain_all(database: Database) -> int:
    with database.transaction() as session:
        return chain.chain(session)


def test_an_entry_is_committed_or_rolled_back_with_its_action(database: Database) -> None:
    with acting(lambda: Action("change", "one", "gnn_1")):
        with database.transaction():
            pass
        with pytest.raises(ZeroDivisionError), database.transaction():
            _ = 1 / 0
    with database.transaction():
        pass  # nobody acts
    with database.reading() as session:
        (entry,) = session.scalars(select(AuditEntry))
    assert (entry.action, entry.resource, entry.position) == ("change", "gnn_1", None)


def test_a_transaction_may_have_several_actions_or_none(database: Database) -> None:
    with acting(lambda: Action("batch", "one")):
        with database.transaction() as session:
            note(session, Action("first", "one"), "exp_1")
            note(session, Action("second", "two"))
            note(session, None, "exp_3")
        with database.transaction() as session:
            audit_entries.note_no_change(session)
    with database.reading() as session:
        found = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    assert [(each.action, each.tenant_id, each.resource) for each in found] == [
        ("first", "one", "exp_1"),
        ("second", "two", None),
    ]


def test_each_tenant_has_an_unbroken_chain(database: Database) -> None:
    act(database, "a", "b")
    act(database, "c", tenant="two")
    assert chain_all(database) == 3
    act(database, "d")
    assert lines(database)[-1].find('"action":"b"') > 0  # not yet chained
    assert chain_all(database) == 1
    assert chain_all(database) == 0
    assert verified(lines(database)).position == 3
    assert verified(lines(database, "two")).position == 1
    with database.reading() as session:
        assert chain.head(session, "one") == verified(lines(database))
        assert chain.head(session, "nobody").position == 0
        assert not chain.is_anything_unchained(session)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit_log SET action = 'x'",
        "UPDATE audit_log SET outcome = 'refused' WHERE position = 1",
        "UPDATE audit_log SET position = 7, chain_sha256 = 'x' WHERE position = 1",
        "UPDATE audit_log SET position = NULL",
        "UPDATE audit_log SET position = 3, action = 'x' WHERE position IS NULL",
        "DELETE FROM audit_log",
        "UPDATE signing_keys SET public_key = 'x'",
        "DELETE FROM signing_keys",
    ],
)
def test_rows_are_never_changed_or_removed(database: Database, change: str) -> None:
    act(database, "a", "b")
    chain_all(database)
    act(database, "c")
    with database.transaction() as session:
        session.add(SigningKey(id="0" * 64, public_key="PEM"))
    before = lines(database)
    with pytest.raises(DatabaseError, match="never changed"), database.transaction() as session:
        session.execute(text(change))
    assert lines(database) == before
