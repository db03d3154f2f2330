"""Content-addressed files: an artifact is named by the SHA-256 of its bytes."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from d4explain.contracts.scopes import DEFAULT_TENANT
from store.artifacts.remote_files import open_file_system
from store.errors import ArtifactCorrupt, ArtifactMissing, ArtifactsUnavailable

_DIGEST = re.compile(r"[0-9a-f]{64}")
_UNFINISHED = ".tmp"
_TENANTS = "tenants"
_CHUNK = 2**20
_WRITERS = 8


class Listed(NamedTuple):
    tenant: str
    digest: str
    modified_at: float | None  # None if the file system does not tell


class Artifacts:
    """A folder or an fsspec URL; equal bytes of a tenant are stored once.

    The artifacts of the default tenant are in the folder itself, those of another one in
    `tenants/NAME`: tenants cannot find out what others have stored.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root, self._is_local, self._read_options = open_file_system(url)
        self.tenant = DEFAULT_TENANT
        self._by_tenant: dict[str, Artifacts] = {DEFAULT_TENANT: self}
        self._writers = ThreadPoolExecutor(_WRITERS, "artifacts")  # starts threads when needed

    def of(self, tenant: str) -> Artifacts:
        """The artifacts of a tenant; the same object for every call."""
        known = self._by_tenant.get(tenant)
        if known is None:
            known = copy.copy(self)
            known.tenant = tenant
            known._root = f"{self._by_tenant[DEFAULT_TENANT]._root}/{_TENANTS}/{tenant}"
            known = self._by_tenant.setdefault(tenant, known)
        return known

    @property
    def folder(self) -> Path | None:
        """The local folder of the artifacts; None if they are remote."""
        return Path(self._root) if self._is_local else None

    def put(self, data: bytes) -> str:
        """Stores the bytes and returns their digest; a crash leaves all bytes or none."""
        digest = digest_of(data)
        path = self._path(digest)
        if self._is_local:
            _write_durably(path, data)
        else:  # object stores publish only complete objects
            with self._remote(writes=True):
                self._files.pipe_file(path, data)
        return digest

    def put_all(self, several: Sequence[bytes]) -> None:
        """Like `put` for several artifacts, in parallel: concurrent syncs are faster."""
        if len(several) <= 1:
            for data in several:
                self.put(data)
            return
        shares = [several[first::_WRITERS] for first in range(min(_WRITERS, len(several)))]
        writing = [self._writers.submit(self._put_each, share) for share in shares]
        wait(writing)  # let all writers finish before raising an error
        for one in writing:
            one.result()

    def _put_each(self, several: Sequence[bytes]) -> None:
        for data in several:
            self.put(data)

    def get(self, digest: str) -> bytes:
        try:
            with self._remote():
                data: bytes = self._files.cat_file(self._path(digest), **self._read_options)
        except FileNotFoundError:
            raise ArtifactMissing(digest) from None
        found = digest_of(data)
        if found != digest:
            raise ArtifactCorrupt(digest, found)
        return data

    def put_large(self, write: Callable[[BinaryIO], None]) -> str:
        """Like `put`, for data that `write` writes to a file because it does not fit in memory."""
        if not self._is_local:
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / "artifact"
                with open(copy, "xb") as file:
                    write(file)
                digest = _digest_of_file(copy)
                with self._remote(writes=True):
                    self._files.put_file(str(copy), self._path(digest))
            return digest
        root = Path(self._root)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = root / f"{secrets.token_hex(16)}{_UNFINISHED}"
        try:
            with open(unfinished, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            digest = _digest_of_file(unfinished)
            final = Path(self._path(digest))
            final.parent.mkdir(mode=0o700, exist_ok=True)
            os.replace(unfinished, final)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        _sync_folder(str(final.parent))
        _sync_folder(str(root))
        return digest

    def open_large(self, digest: str) -> BinaryIO:
        """Opens a verified local file with the artifact's bytes; downloads a remote artifact first.

        The download is an unnamed file that disappears when it is closed and unmapped.
        """
        try:
            file = self._local_copy(self._path(digest))
        except FileNotFoundError:
            raise ArtifactMissing(digest) from None
        try:
            found = _digest(file)
            if found != digest:
                raise ArtifactCorrupt(digest, found)
            file.seek(0)
        except BaseException:
            file.close()
            raise
        return file

    def _local_copy(self, path: str) -> BinaryIO:
        if self._is_local:
            return open(path, "rb")
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "artifact"
            with self._remote():
                self._files.get_file(path, str(copy))
            return open(copy, "rb")  # it stays readable without its name

    def exists(self, digest: str) -> bool:
        path = self._path(digest)
        with self._remote():
            return bool(self._files.exists(path))

    def size(self, digest: str) -> int | None:
        """Its number of bytes; None if it does not exist."""
        try:
            if self._is_local:
                return os.stat(self._path(digest)).st_size
            with self._remote():
                return int(self._files.size(self._path(digest)))
        except FileNotFoundError:
            return None

    def delete(self, digest: str) -> bool:
        """Deletes an artifact; returns whether it existed."""
        path = self._path(digest)
        try:
            with self._remote():
                self._files.rm_file(path)
        except FileNotFoundError:
            return False
        return True

    def problem(self) -> str | None:
        """Why remote artifacts cannot be reached; None if they can, or if they are local."""
        if not self._is_local:
            try:
                self.exists(digest_of(b""))
            except ArtifactsUnavailable as error:
                return str(error)
        return None

    def listed(self) -> Iterator[Listed]:
        """All artifacts of all tenants, in no particular order."""
        for path, details in self._found().items():
            folders = path.removeprefix(f"{self._root}/").split("/")
            if _DIGEST.fullmatch(folders[-1]):
                tenant = folders[1] if folders[0] == _TENANTS else DEFAULT_TENANT
                yield Listed(tenant, folders[-1], _modified_at(details))

    def delete_unfinished(self, before: float) -> None:
        """Deletes unfinished files that killed writers left before that time."""
        for path, details in self._found().items():
            modified_at = _modified_at(details)
            if path.endswith(_UNFINISHED) and modified_at is not None and modified_at < before:
                with contextlib.suppress(FileNotFoundError):
                    self._files.rm_file(path)

    def modified_at(self, digest: str) -> float | None:
        """When the artifact was last stored; None if it is missing or the time is unknown."""
        try:
            with self._remote():
                return _modified_at(self._files.info(self._path(digest)))
        except FileNotFoundError:
            return None

    def _found(self) -> dict[str, dict[str, object]]:
        with self._remote():
            if not self._files.exists(self._root):
                return {}
            found: dict[str, dict[str, object]] = self._files.find(self._root, detail=True)
            return found

    @contextmanager
    def _remote(self, *, writes: bool = False) -> Iterator[None]:
        """Raises `ArtifactsUnavailable` for errors of a remote file system.

        Each one has its own errors. A missing artifact stays a FileNotFoundError, except in a
        write, where the bucket is missing.
        """
        try:
            yield
        except Exception as error:
            is_missing = isinstance(error, FileNotFoundError) and not writes
            if self._is_local or is_missing or isinstance(error, ArtifactMissing):
                raise
            raise ArtifactsUnavailable(error) from error

    def _path(self, digest: str) -> str:
        # Only digests become paths, so no client input can.
        if not _DIGEST.fullmatch(digest):
            raise ArtifactMissing(digest[:80])
        return f"{self._root}/{digest[:2]}/{digest}"


def digest_of(data: bytes) -> str:
    """The name of an artifact with these bytes."""
    return hashlib.sha256(data).hexdigest()


def _write_durably(path: str, data: bytes) -> None:
    # Use few system calls: each one may switch to another thread.
    if _is_stored(path, data):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            os.utime(path)  # renew its age, so that cleanup keeps it
            return
    folder = os.path.dirname(path)
    unfinished = f"{path}.{secrets.token_hex(8)}{_UNFINISHED}"
    try:
        try:
            _write_synced(unfinished, data)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _sync_folder(os.path.dirname(folder))
            _write_synced(unfinished, data)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    _sync_folder(folder)


def _is_stored(path: str, data: bytes) -> bool:
    if not os.path.exists(path):  # most files are new, and this is cheaper than `open`
        return False
    try:
        with open(path, "rb") as file:
            return file.read() == data
    except FileNotFoundError:
        return False


def _write_synced(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest_of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return _digest(file)


def _digest(file: BinaryIO) -> str:
    content = hashlib.sha256()
    while some := file.read(_CHUNK):
        content.update(some)
    return content.hexdigest()


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _modified_at(details: dict[str, object]) -> float | None:
    for name in ("mtime", "LastModified", "created"):
        value = details.get(name)
        if isinstance(value, int | float):
            return float(value)
        if value is not None and hasattr(value, "timestamp"):
            return float(value.timestamp())
    return None
