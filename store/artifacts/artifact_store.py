"""The artifacts of all tenants: a folder or an fsspec URL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.artifacts.files import (
    DIGEST,
    UNFINISHED,
    WRITERS,
    TenantArtifacts,
    digest_of,
    modified_at_of,
)
from store.artifacts.remote_files import open_file_system, outages
from store.errors import ArtifactsUnavailable

_TENANTS = "tenants"


class Listed(NamedTuple):
    tenant: str
    digest: str
    modified_at: float | None  # None if the file system does not tell


class ArtifactStore:
    """Reads and writes no artifact itself: `of` gives those of one tenant.

    The artifacts of the default tenant are in the folder itself, those of another one in
    `tenants/NAME`: tenants cannot find out what others have stored.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = open_file_system(url)
        self._by_tenant: dict[str, TenantArtifacts] = {}
        self._writers = ThreadPoolExecutor(WRITERS, "artifacts")  # starts threads when needed

    def of(self, tenant: str) -> TenantArtifacts:
        """The artifacts of a tenant; the same object for every call."""
        known = self._by_tenant.get(tenant)
        if known is None:
            root = self._opened.root
            if tenant != DEFAULT_TENANT:
                root = f"{root}/{_TENANTS}/{tenant}"
            new = TenantArtifacts(self._opened._replace(root=root), self._writers)
            known = self._by_tenant.setdefault(tenant, new)
        return known

    @property
    def folder(self) -> Path | None:
        """The local folder of the artifacts; None if they are remote."""
        return Path(self._opened.root) if self._opened.is_local else None

    def problem(self) -> str | None:
        """Why remote artifacts cannot be reached; None if they can, or if they are local."""
        if not self._opened.is_local:
            try:
                self.of(DEFAULT_TENANT).exists(digest_of(b""))
            except ArtifactsUnavailable as error:
                return str(error)
        return None

    def listed(self) -> Iterator[Listed]:
        """All artifacts of all tenants, in no particular order."""
        for path, details in self._found().items():
            folders = path.removeprefix(f"{self._opened.root}/").split("/")
            if DIGEST.fullmatch(folders[-1]):
                tenant = folders[1] if folders[0] == _TENANTS else DEFAULT_TENANT
                yield Listed(tenant, folders[-1], modified_at_of(details))

    def delete_unfinished(self, before: float) -> None:
        """Deletes unfinished files that killed writers left before that time."""
        for path, details in self._found().items():
            modified_at = modified_at_of(details)
            if path.endswith(UNFINISHED) and modified_at is not None and modified_at < before:
                with contextlib.suppress(FileNotFoundError):
                    self._opened.files.rm_file(path)

    def _found(self) -> dict[str, dict[str, object]]:
        files, root = self._opened.files, self._opened.root
        with outages(self._opened):
            if not files.exists(root):
                return {}
            found: dict[str, dict[str, object]] = files.find(root, detail=True)
            return found
