"""Errors of the store; they know nothing about HTTP."""

# ruff: noqa: N818 - a domain error is named for what happened

from __future__ import annotations

from d4explain.contracts.errors import DomainError, quoted


class SettingsError(DomainError):
    """An environment variable has an invalid value."""


class NotFound(DomainError):
    def __init__(self, kind: str, id_: str, message: str | None = None) -> None:
        super().__init__(message or f"there is no {kind} with the id {quoted(id_)}")
        self.kind = kind
        self.id = id_


class Conflict(DomainError):
    """The request is valid, but the current state does not allow it."""


class Gone(DomainError):
    """Something that the request needs was deleted."""


class GnnNotReady(Conflict):
    def __init__(self, id_: str, state: str) -> None:
        super().__init__(f"GNN {id_} is {state}; only a ready GNN can be used")
        self.id = id_
        self.state = state


class OnHold(Conflict):
    """A hold keeps a resource from being deleted."""

    def __init__(self, id_: str, held_id: str, reason: str) -> None:
        needed = "" if id_ == held_id else f"{held_id}, which needs it, is on hold"
        super().__init__(
            f"{id_} cannot be deleted: {needed or 'it is on hold'} ({reason}); "
            f"an admin can end the hold of {held_id}"
        )
        self.id = id_
        self.held_id = held_id
        self.reason = reason


class QuotaExceeded(DomainError):
    """A request would go beyond what its tenant may use."""

    def __init__(self, tenant: str, name: str, limit: float, used: float) -> None:
        what = {
            "jobs": "queued and running jobs",
            "work_seconds": "seconds of estimated work in queued and running jobs",
            "stored_bytes": "stored bytes",
        }[name]
        super().__init__(
            f"this tenant may have {limit:,.10g} {what}; with this request it would have "
            f"{used:,.10g}, so nothing was accepted"
        )
        self.tenant = tenant
        self.name = name
        self.limit = limit
        self.used = used


class QueueFull(DomainError):
    """All tenants together have as many queued jobs as the deployment allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the deployment already has {limit:,} queued jobs, its limit; nothing was accepted"
        )


class IdempotencyMismatch(DomainError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {quoted(key)} was already used for another request; "
            "use a new key for a new request"
        )
        self.key = key


class DiskFull(DomainError):
    """There is not enough disk space to accept new work."""

    def __init__(self, shortage: str) -> None:
        super().__init__(f"the disk is full: {shortage}")


class SchemaMismatch(DomainError):
    """The database has the schema of another version of this program."""


class ManyMachines(DomainError):
    """A SQLite database is used by processes of several machines."""

    def __init__(self, worker: str) -> None:
        super().__init__(
            f"the database is a SQLite file, but worker {worker} uses it on another machine; "
            "SQLite serves one machine: set D4_DATABASE_URL to a PostgreSQL database. If this "
            "machine has just started, wait half a minute"
        )


class LeaseLost(DomainError):
    """Another attempt holds the job, or the job has ended: this attempt must not write."""

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} no longer holds job {job_id}")
        self.job_id = job_id
        self.attempt = attempt


class ArtifactsUnavailable(DomainError):
    """The object store of the artifacts refuses or does not answer."""

    def __init__(self, error: Exception) -> None:
        # Only the type: the text of an error may contain a signed address.
        super().__init__(f"the artifact store is unavailable ({type(error).__name__})")


class ArtifactMissing(DomainError):
    def __init__(self, digest: str) -> None:
        super().__init__(f"artifact {digest} is not in the store")
        self.digest = digest


class ArtifactDeleted(DomainError):
    """An artifact was deleted while a row that refers to it was written."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"artifact {digest} was deleted while it was stored again; repeat the request"
        )
        self.digest = digest


class ArtifactCorrupt(DomainError):
    def __init__(self, digest: str, found: str) -> None:
        super().__init__(f"artifact {digest} is corrupt: its bytes hash to {found}")
        self.digest = digest
        self.found = found
