"""Checks that every artifact of a row is there, for example after a restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from store.artifacts.artifact_store import ArtifactStore
from store.database.artifact_uses import CHECKPOINT, ArtifactUse, Key, referenced
from store.database.sessions import Database
from store.errors import ArtifactCorrupt, ArtifactMissing

_READERS = 8  # object stores answer many requests at once


@dataclass(frozen=True)
class Consistency:
    rows: int  # references to artifacts
    artifacts: int
    unused: int  # artifacts without a reference; the cleanup deletes them a day later
    missing: list[ArtifactUse]
    corrupt: list[ArtifactUse]

    @property
    def faults(self) -> list[ArtifactUse]:
        """A missing checkpoint is none: the training starts again."""
        return [use for use in (*self.missing, *self.corrupt) if use.what != CHECKPOINT]


def check(database: Database, artifacts: ArtifactStore, *, read: bool = False) -> Consistency:
    """Compares rows and artifacts; with `read`, also the bytes of artifacts with their digests."""
    with database.reading() as session:
        uses = list(referenced(session))
    present = {(listed.tenant, listed.digest) for listed in artifacts.listed()}
    missing = [use for use in uses if use.key not in present]
    # A row that was written after the listing refers to an artifact that it lacks.
    missing = _failing(missing, lambda key: artifacts.of(key[0]).exists(key[1]))
    found = [use for use in uses if use.key in present]
    corrupt = _failing(found, lambda key: _is_sound(artifacts, key)) if read else []
    used = {use.key for use in uses}
    return Consistency(len(uses), len(present), len(present - used), missing, corrupt)


def _failing(uses: Iterable[ArtifactUse], passes: Callable[[Key], bool]) -> list[ArtifactUse]:
    by_key: dict[Key, list[ArtifactUse]] = {}
    for use in uses:
        by_key.setdefault(use.key, []).append(use)
    with ThreadPoolExecutor(_READERS, "consistency") as readers:
        passed = list(readers.map(passes, by_key))
    failed = [by_key[key] for key, one in zip(by_key, passed, strict=True) if not one]
    return [use for several in failed for use in several]


def _is_sound(artifacts: ArtifactStore, key: Key) -> bool:
    tenant, digest = key
    try:
        artifacts.of(tenant).open_large(digest).close()
    except (ArtifactCorrupt, ArtifactMissing):
        return False
    return True
