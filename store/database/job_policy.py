"""Attempts and time limits of jobs; every session of a database carries them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

_KEY = "job_policy"


@dataclass(frozen=True)
class JobPolicy:
    max_attempts: int = 3
    redispatch_seconds: float = 15.0
    queue_seconds: float = 24 * 3600.0
    idempotency_seconds: float = 24 * 3600.0


def policy_of(session: Session) -> JobPolicy:
    policy = session.info.get(_KEY, JobPolicy())
    assert isinstance(policy, JobPolicy)
    return policy


def session_info(policy: JobPolicy) -> dict[str, JobPolicy]:
    return {_KEY: policy}
