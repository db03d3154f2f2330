"""Which request caused a job: its id and its trace, stored in the first event of the job.

A message of the queue may be lost or repeated; the database is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from store.database.tables import JobEvent
from store.database.tables.base import JsonObject

# W3C Trace Context: version, trace id, parent id, flags. Ids of zeros are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


@dataclass(frozen=True)
class Origin:
    request_id: str | None = None
    traceparent: str | None = None  # of W3C Trace Context

    def document(self) -> JsonObject:
        """What the first event of a job has besides its state."""
        fields = {"request_id": self.request_id, "traceparent": self.traceparent}
        return {name: value for name, value in fields.items() if value is not None}


UNKNOWN = Origin()
_current: ContextVar[Origin] = ContextVar("origin", default=UNKNOWN)


@contextmanager
def coming_from(origin: Origin) -> Iterator[None]:
    """Jobs that are submitted in this block, also in threads that it starts, have this origin."""
    token = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(token)


def current_origin() -> Origin:
    return _current.get()


def valid_traceparent(header: str | None) -> str | None:
    """None if it is missing or invalid: then the standard asks for a new trace."""
    text = (header or "").strip()
    return text if _TRACEPARENT.fullmatch(text) else None


def of_jobs(session: Session, job_ids: Sequence[str]) -> dict[str, Origin]:
    """The origins of jobs by id; jobs without events are left out."""
    if not job_ids:
        return {}
    first = (
        select(func.min(JobEvent.id)).where(JobEvent.job_id.in_(job_ids)).group_by(JobEvent.job_id)
    )
    rows = session.execute(select(JobEvent.job_id, JobEvent.data).where(JobEvent.id.in_(first)))
    return {job_id: _origin(data) for job_id, data in rows}


def _origin(data: Mapping[str, str]) -> Origin:
    return Origin(data.get("request_id"), data.get("traceparent"))
