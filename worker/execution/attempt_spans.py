"""The span of an attempt, with the wait in the queue before it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from store import tracing
from store.jobs import Claim
from store.tracing import Span

_current: ContextVar[Span] = ContextVar("attempt span", default=tracing.NO_SPAN)


@contextmanager
def attempt_span(claim: Claim) -> Iterator[None]:
    """A span of the request's trace, also if the job is repeated or moved to another worker.

    Times before the attempt are those of the database's clock.
    """
    if not tracing.is_on():
        yield
        return
    facts = {
        "d4.job.id": claim.job_id,
        "d4.job.kind": claim.kind.value,
        "d4.job.attempt": claim.attempt,
        "d4.request_id": claim.origin.request_id,
        "d4.tenant": claim.tenant,
    }
    parent, started_at = claim.origin.traceparent, time.time()
    if claim.attempt == 1:
        began = min(claim.created_at, started_at)
        wait = tracing.start(f"queue {claim.kind}", parent=parent, at=began, attributes=facts)
        wait.end(started_at)
    span = tracing.start(
        f"job {claim.kind}", kind="CONSUMER", parent=parent, at=started_at, attributes=facts
    )
    token = _current.set(span)
    try:
        with tracing.within(span):
            yield
    finally:
        _current.reset(token)
        span.end()


def fail_attempt(reason: str) -> None:
    """Marks the span of the current attempt as failed."""
    _current.get().fail(reason)
