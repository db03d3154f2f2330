"""Counts ended jobs by kind and state, incrementally as they end."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from d4explain.contracts.job_states import JobKind, JobState
from store.database.tables import Job, JobTotal

_ENDED = "ended jobs"  # key in `session.info`; a session lives for one transaction


def note_end(session: Session, job: Job) -> None:
    """Counts a job that ends in this transaction; `write` stores the counts at commit."""
    ended: Counter[tuple[str, str, str]] = session.info.setdefault(_ENDED, Counter())
    ended[job.tenant_id, job.kind.value, job.state.value] += 1


def write(session: Session) -> None:
    """Stores the counts at the end of a transaction, in a fixed order to avoid deadlocks."""
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


def read(session: Session, tenant: str | None = None) -> dict[tuple[JobKind, JobState], int]:
    """The totals of a tenant, or of all tenants together."""
    query = select(JobTotal.kind, JobTotal.state, func.sum(JobTotal.count))
    if tenant is not None:
        query = query.where(JobTotal.tenant_id == tenant)
    rows = session.execute(query.group_by(JobTotal.kind, JobTotal.state))
    return {(kind, state): int(count) for kind, state, count in rows}
