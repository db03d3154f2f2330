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
from store.database import audit_entries, quotas
from store.database.audit_entries import Action, current_action
from store.database.origins import UNKNOWN, Origin, coming_from, current_origin
from store.store import Store

HEADER = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True)
class Submission:
    """Identifies one POST: tenant, route, body and key."""

    tenant: str
    route: str
    body_sha256: str
    key: str | None
    action: Action | None  # what the audit log records, if it creates something
    origin: Origin = UNKNOWN

    @property
    def lock_key(self) -> tuple[str, str]:
        """The order in which a batch locks the keys of its submissions."""
        return self.tenant, self.key or ""


@dataclass(frozen=True)
class Created:
    """The resource that a submission created."""

    id: str
    replayed: bool

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Replayed": "true"} if self.replayed else {}


def submission_of(request: Request, tenant: str, *parts: bytes | PostedBody) -> Submission:
    """Reads the key; `parts` are hashed to compare bodies."""
    key = request.headers.get(HEADER)
    if key is not None and not _KEY.fullmatch(key):
        reject(HEADER, "should be 1 to 255 visible ASCII characters", "header")
    digest = hashlib.sha256()
    for part in parts:
        digest.update(
            part.sha256 if isinstance(part, PostedBody) else hashlib.sha256(part).digest()
        )
    route = f"{request.method} {request.scope['path']}"
    return Submission(tenant, route, digest.hexdigest(), key, current_action(), current_origin())


def already_created(store: Store, submission: Submission) -> Created | None:
    """The resource that an earlier request with this key created.

    Call it before the body is parsed, so that repeated requests are cheap. Raises `DiskFull` for a
    new request if the disk is full.
    """
    created = None
    if submission.key is not None:
        with store.database.reading() as session:
            created = find_created(session, submission, lock=False)
    if created is None:
        store.require_room()
    return created


def create_once(store: Store, submission: Submission, create: Callable[[Session], str]) -> Created:
    """Runs `create`, which returns an id, in one transaction unless the key was used before."""
    with coming_from(submission.origin), store.database.transaction() as session:
        earlier = find_created(session, submission)
        if earlier is not None:
            audit_entries.note_no_change(session)
            return earlier
        created = Created(create(session), replayed=False)
        quotas.enforce(session, submission.tenant)
        remember_created(session, submission, created)
        audit_entries.note(session, submission.action, created.id)
        return created


def find_created(session: Session, submission: Submission, *, lock: bool = True) -> Created | None:
    """The resource created earlier; `lock` makes other requests with the same key wait."""
    if submission.key is None:
        return None
    resource = idempotency.find(
        session,
        key=submission.key,
        body_sha256=submission.body_sha256,
        route=submission.route,
        tenant=submission.tenant,
        lock=lock,
    )
    return None if resource is None else Created(resource, replayed=True)


def remember_created(session: Session, submission: Submission, created: Created) -> None:
    if submission.key is not None:
        idempotency.remember(
            session,
            key=submission.key,
            body_sha256=submission.body_sha256,
            route=submission.route,
            resource=created.id,
            tenant=submission.tenant,
        )
