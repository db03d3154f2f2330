"""What a tenant may use at once, counted in the transaction that adds to it.

The lock of the tenant's row in `tenant_usage` orders these transactions, so that several APIs
together stay within a quota. `write` takes it at the end of the transaction, after all other locks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from d4explain.contracts.errors import InvalidInput
from d4explain.contracts.job_states import JobState
from store.database import artifact_ledger
from store.database.tables import Job, TenantPolicy, TenantUsage
from store.errors import QueueFull, QuotaExceeded

_LIMITS = "quotas"  # keys in `session.info`; a session lives for one transaction
_ENFORCED = "tenants to check"
_LIVE = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Quotas:
    """0 means no limit."""

    jobs: int = 0  # queued and running
    work_seconds: float = 0.0  # estimated, of these jobs on one core
    stored_bytes: int = 0
    requests_per_second: float = 0.0  # of one API process


@dataclass(frozen=True)
class Limits:
    quotas: Quotas = Quotas()  # of tenants without their own
    queued_jobs: int = 0  # of all tenants together; 0 means no limit


@dataclass(frozen=True)
class Usage:
    jobs: int
    work_seconds: float
    stored_bytes: int


def session_info(limits: Limits) -> dict[str, Limits]:
    return {_LIMITS: limits}


def enforce(session: Session, tenant: str) -> None:
    """Notes that this transaction adds jobs or artifacts of a tenant on a client's request."""
    session.info.setdefault(_ENFORCED, set()).add(tenant)


def write(session: Session) -> None:
    """Raises QuotaExceeded or QueueFull if the transaction goes beyond a limit."""
    tenants = session.info.pop(_ENFORCED, None)
    if not tenants:
        return
    session.flush()
    limits = _limits(session)
    if limits.queued_jobs:
        query = select(func.count()).where(Job.state == JobState.QUEUED)
        queued = session.scalar(query) or 0
        if queued > limits.queued_jobs:
            raise QueueFull(limits.queued_jobs)
    for tenant in sorted(tenants):
        quotas = of_tenant(session, tenant)
        if quotas.jobs or quotas.work_seconds or quotas.stored_bytes:
            artifact_ledger.add_usage(session, tenant, 0)  # locks the row
            _check(tenant, quotas, usage_of(session, tenant))


def of_tenant(session: Session, tenant: str) -> Quotas:
    """The tenant's own quotas; the deployment's for those that it has not."""
    own = session.scalar(select(TenantPolicy.quotas).where(TenantPolicy.tenant_id == tenant))
    return replace(_limits(session).quotas, **(own or {}))


def usage_of(session: Session, tenant: str) -> Usage:
    stored = select(TenantUsage.stored_bytes).where(TenantUsage.tenant_id == tenant)
    live = select(func.count(), func.coalesce(func.sum(Job.estimated_seconds), 0.0)).where(
        Job.tenant_id == tenant, Job.state.in_(_LIVE)
    )
    jobs, work_seconds = session.execute(live).one()
    return Usage(jobs, float(work_seconds or 0.0), session.scalar(stored) or 0)


def set_for_tenant(session: Session, tenant: str, changes: dict[str, float | None]) -> Quotas:
    """Sets a tenant's own quotas; None returns to the deployment's."""
    row = session.get(TenantPolicy, tenant, with_for_update=True)
    own: dict[str, Any] = dict(row.quotas) if row else {}
    whole = {"jobs", "stored_bytes"}
    for name, value in changes.items():
        if value is None:
            own.pop(name, None)
        elif value < 0:
            raise InvalidInput(f"the quota {name} is {value}; it must be 0 (no limit) or more")
        else:
            own[name] = int(value) if name in whole else float(value)
    upsert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    new = upsert(TenantPolicy).values(tenant_id=tenant, quotas=own, retention={})
    session.execute(new.on_conflict_do_update(index_elements=["tenant_id"], set_={"quotas": own}))
    return of_tenant(session, tenant)


def _check(tenant: str, quotas: Quotas, usage: Usage) -> None:
    for name, used in asdict(usage).items():
        limit = getattr(quotas, name)
        if limit and used > limit:
            raise QuotaExceeded(tenant, name, limit, used)


def _limits(session: Session) -> Limits:
    limits = session.info.get(_LIMITS, Limits())
    assert isinstance(limits, Limits)
    return limits
