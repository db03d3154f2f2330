"""How many jobs have ended, by kind and state: counted when they end, never by looking at all."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from store.database.tables import Job, JobTotal

_ENDED = "ended jobs"  # of a session, which lives for one transaction


def note_end(session: Session, job: Job) -> None:
    """Counts a job that ends in this transaction; `write` stores it with the commit."""
    ended: Counter[tuple[str, str, str]] = session.info.setdefault(_ENDED, Counter())
    ended[job.tenant_id, job.kind.value, job.state.value] += 1


def write(session: Session) -> None:
    """The last statements of a transaction, in one order for all, so that none wait in a circle."""
    ended: Counter[tuple[str, str, str]] = session.info.pop(_ENDED, Counter())
    upsert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    for (tenant, kind, state), count in sorted(ended.items()):
        new = upsert(JobTotal).values(
            tenant_id=tenant, kind=JobKind(kind), state=JobState(state), count=count
        )
        session.execute(
            new.on_conflict_do_update(
                index_elements=[JobTotal.tenant_id, JobTotal.kind, JobTotal.state],
                set_={"count": JobTotal.count + new.excluded.count},
            )
        )


def read(session: Session) -> dict[tuple[JobKind, JobState], int]:
    """Of all tenants together."""
    query = select(JobTotal.kind, JobTotal.state, func.sum(JobTotal.count))
    rows = session.execute(query.group_by(JobTotal.kind, JobTotal.state))
    return {(kind, state): int(count) for kind, state, count in rows}
