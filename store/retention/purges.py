"""Proves that the files of deleted resources are gone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.orm import Session

from store.artifacts.artifact_store import ArtifactStore
from store.database import artifact_uses
from store.database.artifact_uses import Key
from store.database.sessions import Database, now, read_clock
from store.database.tables import Deletion
from store.retention import unused_artifacts
from store.retention.unused_artifacts import DeletedArtifacts

_NOTE_SECONDS = 30 * 24 * 3600.0  # how long a note about a purged resource is kept
_BATCH = 200


@dataclass(frozen=True)
class KeptArtifact:
    """A file of deleted resources that other resources need."""

    digest: str
    users: tuple[str, ...]  # ids


@dataclass(frozen=True)
class PurgedResource:
    """What is left of a deleted resource."""

    tenant: str
    kind: str
    id: str
    file_count: int
    kept: tuple[KeptArtifact, ...]
    left: tuple[str, ...]  # digests of files that should be gone

    @property
    def is_purged(self) -> bool:
        return not self.left

    def __str__(self) -> str:
        gone = self.file_count - len(self.kept) - len(self.left)
        parts = [f"{gone} of {self.file_count} files are gone"]
        parts += [f"{one.digest} is kept for {', '.join(one.users)}" for one in self.kept]
        parts += [f"{digest} is left; is it being uploaded again?" for digest in self.left]
        return f"{self.tenant}: {self.kind} {self.id}: {'; '.join(parts)}"


@dataclass(frozen=True)
class PurgeReport:
    deleted: DeletedArtifacts
    resources: tuple[PurgedResource, ...]

    @property
    def is_complete(self) -> bool:
        return all(resource.is_purged for resource in self.resources)


def purge(database: Database, artifacts: ArtifactStore) -> PurgeReport:
    """Deletes the files of deleted resources and looks whether they are gone."""
    deleted = unused_artifacts.delete_released(database, artifacts)
    return PurgeReport(deleted, tuple(verify(database, artifacts)))


def verify(database: Database, artifacts: ArtifactStore) -> list[PurgedResource]:
    """Looks for the files of deleted resources that were not verified to be gone."""
    with database.reading() as session:
        unverified = session.scalars(
            select(Deletion)
            .where(Deletion.purged_at.is_(None))
            .order_by(Deletion.deleted_at, Deletion.resource_id)
        ).all()
    verified = []
    for first in range(0, len(unverified), _BATCH):
        batch = unverified[first : first + _BATCH]
        verified += _look_for_files(database, artifacts, batch)
    return verified


def forget(session: Session) -> None:
    """Deletes old notes about purged resources."""
    before = read_clock(session) - _NOTE_SECONDS
    session.execute(delete(Deletion).where(Deletion.purged_at < before))


def _look_for_files(
    database: Database, artifacts: ArtifactStore, batch: Sequence[Deletion]
) -> list[PurgedResource]:
    keys = {(note.tenant_id, digest) for note in batch for digest in note.digests}
    with database.reading() as session:
        users = artifact_uses.users_of(session, keys)
    left = {
        (tenant, digest)
        for tenant, digest in keys - users.keys()
        if artifacts.of(tenant).size(digest) is not None
    }
    found = [_purged(note, users, left) for note in batch]
    gone = [resource for resource in found if resource.is_purged]
    if gone:
        with database.transaction() as session:
            session.execute(
                update(Deletion)
                .where(
                    tuple_(Deletion.tenant_id, Deletion.resource_id).in_(
                        [(resource.tenant, resource.id) for resource in gone]
                    )
                )
                .values(purged_at=now())
                .execution_options(synchronize_session=False)
            )
    return found


def _purged(
    note: Deletion, users: Mapping[Key, Sequence[str]], left: Collection[Key]
) -> PurgedResource:
    tenant = note.tenant_id
    return PurgedResource(
        tenant=tenant,
        kind=note.kind,
        id=note.resource_id,
        file_count=len(note.digests),
        kept=tuple(
            KeptArtifact(digest, tuple(users[tenant, digest]))
            for digest in note.digests
            if (tenant, digest) in users
        ),
        left=tuple(digest for digest in note.digests if (tenant, digest) in left),
    )
