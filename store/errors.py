"""What can go wrong in the domain; nothing here knows of HTTP."""

# ruff: noqa: N818 - a domain error is named for what happened

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input, and where (RFC 6901 pointer)."""

    pointer: str
    detail: str


class StoreError(Exception):
    """Base of all errors of the domain."""


class SettingsError(StoreError):
    """An environment variable holds something that the setting cannot be."""


class PluginError(StoreError):
    """A plug-in of this environment cannot be used, or one that is needed is not there."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"plug-in {name[:80]!r}: {why}")
        self.name = name


class NotFound(StoreError):
    def __init__(self, kind: str, id_: str, message: str | None = None) -> None:
        super().__init__(message or f"there is no {kind} with the id {id_[:80]!r}")
        self.kind = kind
        self.id = id_


class Conflict(StoreError):
    """The request is sound but the present state does not allow it."""


class GnnNotReady(Conflict):
    def __init__(self, id_: str, state: str) -> None:
        super().__init__(f"GNN {id_} is {state}; only a ready GNN can be used")
        self.id = id_
        self.state = state


class InvalidInput(StoreError):
    """Something sent is not acceptable; `faults` names each place."""

    def __init__(
        self,
        message: str,
        pointer: str = "",
        allowed: object = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.allowed = allowed
        self.faults = tuple(faults) or (Fault(pointer, message),)


class IdempotencyMismatch(StoreError):
    def __init__(self, key: str) -> None:
        super().__init__(
            f"the idempotency key {key[:80]!r} was already used for another request; "
            "use a new key for a new request"
        )
        self.key = key


class DiskFull(StoreError):
    """There is not enough room to take on new work."""

    def __init__(self, shortage: str) -> None:
        super().__init__(f"the disk is full: {shortage}")


class SchemaMismatch(StoreError):
    """The database's tables are those of another version of this program."""


class LeaseLost(StoreError):
    """Another attempt owns the job now, or it has ended: nothing of this attempt may be written."""

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__(f"attempt {attempt} no longer holds job {job_id}")
        self.job_id = job_id
        self.attempt = attempt


class ArtifactMissing(StoreError):
    def __init__(self, digest: str) -> None:
        super().__init__(f"artifact {digest} is not in the store")
        self.digest = digest


class ArtifactCorrupt(StoreError):
    def __init__(self, digest: str, found: str) -> None:
        super().__init__(f"artifact {digest} is corrupt: its bytes hash to {found}")
        self.digest = digest
        self.found = found
