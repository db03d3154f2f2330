"""Content-addressed files of one tenant: an artifact is named by the SHA-256 of its bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import BinaryIO

from store.artifacts.remote_files import OpenedUrl, outages
from store.errors import ArtifactCorrupt, ArtifactMissing

DIGEST = re.compile(r"[0-9a-f]{64}")
UNFINISHED = ".tmp"
WRITERS = 8
_CHUNK = 2**20


class TenantArtifacts:
    """The artifacts of one tenant; equal bytes are stored once. `ArtifactStore.of` makes it."""

    def __init__(self, opened: OpenedUrl, writers: ThreadPoolExecutor) -> None:
        self._opened = opened
        self._files, self._root, self._is_local, self._read_options = opened
        self._writers = writers

    def put(self, data: bytes) -> str:
        """Stores the bytes and returns their digest; a crash leaves all bytes or none."""
        digest = digest_of(data)
        path = self._path(digest)
        if self._is_local:
            _write_durably(path, data)
        else:  # object stores publish only complete objects
            with outages(self._opened, writes=True):
                self._files.pipe_file(path, data)
        return digest

    def put_all(self, several: Sequence[bytes]) -> None:
        """Like `put` for several artifacts, in parallel: concurrent syncs are faster."""
        if len(several) <= 1:
            for data in several:
                self.put(data)
            return
        count = min(WRITERS, len(several))
        shares = [several[first::count] for first in range(count)]
        writing = [self._writers.submit(self._put_each, share) for share in shares]
        wait(writing)  # let all writers finish before raising an error
        for one in writing:
            one.result()

    def _put_each(self, several: Sequence[bytes]) -> None:
        for data in several:
            self.put(data)

    def get(self, digest: str) -> bytes:
        try:
            with outages(self._opened):
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
                with outages(self._opened, writes=True):
                    self._files.put_file(str(copy), self._path(digest))
            return digest
        root = Path(self._root)
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = root / f"{secrets.token_hex(16)}{UNFINISHED}"
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
            with outages(self._opened):
                self._files.get_file(path, str(copy))
            return open(copy, "rb")  # it stays readable without its name

    def exists(self, digest: str) -> bool:
        path = self._path(digest)
        with outages(self._opened):
            return bool(self._files.exists(path))

    def size(self, digest: str) -> int | None:
        """Its number of bytes; None if it does not exist."""
        try:
            if self._is_local:
                return os.stat(self._path(digest)).st_size
            with outages(self._opened):
                return int(self._files.size(self._path(digest)))
        except FileNotFoundError:
            return None

    def delete(self, digest: str) -> bool:
        """Deletes an artifact; returns whether it existed."""
        path = self._path(digest)
        try:
            with outages(self._opened):
                self._files.rm_file(path)
        except FileNotFoundError:
            return False
        return True

    def modified_at(self, digest: str) -> float | None:
        """When the artifact was last stored; None if it is missing or the time is unknown."""
        try:
            with outages(self._opened):
                return modified_at_of(self._files.info(self._path(digest)))
        except FileNotFoundError:
            return None

    def _path(self, digest: str) -> str:
        # Only digests become paths, so no client input can.
        if not DIGEST.fullmatch(digest):
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
    unfinished = f"{path}.{secrets.token_hex(8)}{UNFINISHED}"
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


def modified_at_of(details: dict[str, object]) -> float | None:
    for name in ("mtime", "LastModified", "created"):
        value = details.get(name)
        if isinstance(value, int | float):
            return float(value)
        if value is not None and hasattr(value, "timestamp"):
            return float(value.timestamp())
    return None
