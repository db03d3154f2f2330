"""`Idempotency-Key`: repeating a key and body returns the same resource."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from sqlalchemy.orm import Session

from service.http.bodies import PostedBody
from service.http.faults import reject
from store.catalogue import idempotency
from store.store import Store

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True)
class Submission:
    """Identifies one POST: route, body and key."""

    route: str
    body_sha256: str
    key: str | None


@dataclass(frozen=True)
class Created:
    """The resource that a submission created."""

    id: str
    replayed: bool

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Replayed": "true"} if self.replayed else {}


def submission_of(request: Request, *parts: bytes | PostedBody) -> Submission:
    """Reads the key; `parts` are hashed to compare bodies."""
    key = request.headers.get(HEADER)
    if key is not None and not _KEY.fullmatch(key):
        reject(HEADER, "should be 1 to 255 visible ASCII characters", "header")
    digest = hashlib.sha256()
    for part in parts:
        digest.update(
            part.sha256 if isinstance(part, PostedBody) else hashlib.sha256(part).digest()
        )
    return Submission(f"{request.method} {request.scope['path']}", digest.hexdigest(), key)


def known(store: Store, submission: Submission) -> Created | None:
    """The resource that this submission created before; call it first, so that repeats are cheap.

    Raises `DiskFull` for a new submission if the disk is full.
    """
    made = None
    if submission.key is not None:
        with store.database.reading() as session:
            made = find_created(session, submission, lock=False)
    if made is None:
        store.require_room()
    return made


def once(store: Store, submission: Submission, make: Callable[[Session], str]) -> Created:
    """Runs `make`, which returns an id, in one transaction unless the key was used before."""
    with store.database.transaction() as session:
        before = find_created(session, submission)
        if before is not None:
            return before
        made = Created(make(session), replayed=False)
        remember_created(session, submission, made)
        return made


def find_created(session: Session, submission: Submission, *, lock: bool = True) -> Created | None:
    """The resource created before; `lock` makes other requests with the same key wait."""
    if submission.key is None:
        return None
    resource = idempotency.find(
        session,
        key=submission.key,
        body_sha256=submission.body_sha256,
        route=submission.route,
        lock=lock,
    )
    return None if resource is None else Created(resource, replayed=True)


def remember_created(session: Session, submission: Submission, made: Created) -> None:
    if submission.key is not None:
        idempotency.remember(
            session,
            key=submission.key,
            body_sha256=submission.body_sha256,
            route=submission.route,
            resource=made.id,
        )
