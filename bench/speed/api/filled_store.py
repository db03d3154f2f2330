"""Fills the store of a running deployment with copies of answered explanations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from store.database.identifiers import new_id
from store.database.tables import Explanation, Job
from store.store import Store

_DAY = 86_400.0
_DAYS = 30  # over which the copies are spread
_AT_ONCE = 1000


def copy_explanations(store: Store, ids: Sequence[str], count: int, seed: int) -> None:
    """Adds `count` copies of ended explanations, with their jobs, at random earlier times."""
    chance = random.Random(seed)
    with store.database.reading() as session:
        originals = [_rows_of(session, id_) for id_ in ids]
    left = count
    while left > 0:
        copies = [_copied(*chance.choice(originals), chance) for _ in range(min(left, _AT_ONCE))]
        with store.database.transaction() as session:
            session.execute(insert(Job), [job for _, job in copies])
            session.execute(insert(Explanation), [explanation for explanation, _ in copies])
        left -= len(copies)


def _rows_of(session: Session, id_: str) -> tuple[dict[str, Any], dict[str, Any]]:
    explanation = session.scalars(select(Explanation).where(Explanation.id == id_)).one()
    job = session.scalars(select(Job).where(Job.id == explanation.job_id)).one()
    return _values(explanation), _values(job)


def _values(row: Explanation | Job) -> dict[str, Any]:
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def _copied(
    explanation: dict[str, Any], job: dict[str, Any], chance: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    earlier = chance.uniform(0, _DAYS * _DAY)
    ids = {"explanation": new_id("exp"), "job": new_id("job")}
    times = ("created_at", "started_at", "finished_at")
    moved = {name: job[name] - earlier for name in times if job[name] is not None}
    return (
        {
            **explanation,
            "id": ids["explanation"],
            "job_id": ids["job"],
            "provisional_job_id": None,
            "provisional_digest": None,
            "created_at": explanation["created_at"] - earlier,
        },
        {**job, "id": ids["job"], "subject_id": ids["explanation"], "retry_of": None, **moved},
    )
