"""Writes who did what into the audit log, in the transaction of the action itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from sqlalchemy import insert
from sqlalchemy.orm import Session

from store.database.tables.audit import AuditEntry, Outcome, Source

_NOTED = "audit entries"  # key in `session.info`; a session lives for one transaction
_INSERT = insert(AuditEntry)  # built once: every submission runs it
_MAX_RESOURCE = 300


@dataclass(frozen=True)
class Action:
    """What somebody does in a transaction."""

    name: str
    tenant: str
    resource: str | None = None  # its id, or the names that lead to it
    source: Source = Source.API
    key_id: str | None = None  # None without keys
    request_id: str | None = None
    content_sha256: str | None = None
    outcome: Outcome = Outcome.DONE


# A function, because an action is known better when it writes than when it begins.
_describe: ContextVar[Callable[[], Action] | None] = ContextVar("audited action", default=None)


@contextmanager
def acting(describe: Callable[[], Action]) -> Iterator[None]:
    """Every transaction of this block is one of this action, also in threads that it starts."""
    token = _describe.set(describe)
    try:
        yield
    finally:
        _describe.reset(token)


def current_action() -> Action | None:
    describe = _describe.get()
    return None if describe is None else describe()


def note(session: Session, action: Action | None, resource: str | None = None) -> None:
    """Records this action instead of the current one.

    `resource` is what it created. A transaction of several actions notes each of them.
    """
    noted = session.info.setdefault(_NOTED, [])
    if action is not None:
        noted.append(action if resource is None else replace(action, resource=resource))


def note_no_change(session: Session) -> None:
    """Records nothing: the transaction only found what an earlier request did."""
    session.info.setdefault(_NOTED, [])


def write(session: Session) -> None:
    """Stores the actions at the end of a transaction."""
    actions: list[Action] | None = session.info.pop(_NOTED, None)
    if actions is None:
        current = current_action()
        actions = [] if current is None else [current]
    if actions:
        session.connection().execute(_INSERT, [_row(action) for action in actions])


def _row(action: Action) -> dict[str, object]:
    return {
        "tenant_id": action.tenant,
        "source": action.source,
        "key_id": action.key_id,
        "action": action.name,
        "resource": None if action.resource is None else action.resource[:_MAX_RESOURCE],
        "content_sha256": action.content_sha256,
        "request_id": action.request_id,
        "outcome": action.outcome,
    }
