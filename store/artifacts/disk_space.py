"""Disk space: recognises disk-full errors and checks how much space is left."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlalchemy.exc import DBAPIError

RESERVE_BYTES = 32 * 2**20
_REFUSAL_SECONDS = 5.0  # after a refused write, the disk counts as full for this long
_POLL_SECONDS = 0.5

_DISK_FULL_ERRNOS = {errno.ENOSPC, errno.EDQUOT}
_POSTGRES_DISK_FULL = "53100"
# SHMSIZE: the shared-memory file cannot grow.
_SQLITE_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
# A full disk may also cause these errors, but so may other faults.
_SQLITE_MAYBE_FULL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def is_disk_full(error: BaseException) -> bool:
    """Whether a file system or database refused a write because the disk is full."""
    if isinstance(error, OSError):
        return error.errno in _DISK_FULL_ERRNOS
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error.orig) in _SQLITE_FULL
    return getattr(error.orig, "sqlstate", None) == _POSTGRES_DISK_FULL


class DiskSpace:
    """Watches the folders that this deployment writes to.

    The API refuses new work while less than the reserve is free: running jobs need space for their
    results, and deleting something needs space, too.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        reserve: int = RESERVE_BYTES,
        refusal_seconds: float = _REFUSAL_SECONDS,
    ) -> None:
        self._folders = dict(folders)
        self._reserve = reserve
        self._refusal_seconds = refusal_seconds
        self._refused_at: float | None = None

    def shortage(self) -> str | None:
        """A description of the shortage; None while there is enough space."""
        below_reserve = self.below_reserve()
        if below_reserve is not None:
            return below_reserve
        refused_at = self._refused_at
        if refused_at is not None and time.monotonic() - refused_at < self._refusal_seconds:
            return "a write was refused because a disk is full"
        return None

    def below_reserve(self) -> str | None:
        """Which folder has less free space than the reserve; None if none has."""
        for name, free in self._free_bytes().items():
            if free < self._reserve:
                return (
                    f"only {_mebibytes(free)} are free for {name}; "
                    f"{self._reserve / 2**20:.0f} MiB are kept for running jobs"
                )
        return None

    def free_space(self) -> str:
        """The free space of every folder, for messages."""
        free = self._free_bytes()
        if not free:
            return "its free space is unknown"
        return ", ".join(f"{_mebibytes(free[name])} are free for {name}" for name in free)

    def explains(self, error: BaseException) -> bool:
        """Whether a full disk caused the error, even if SQLite reports an I/O error."""
        if is_disk_full(error):
            return True
        orig = error.orig if isinstance(error, DBAPIError) else None
        if not isinstance(orig, sqlite3.Error):
            return False
        return _sqlite_code(orig) & 0xFF in _SQLITE_MAYBE_FULL and self.shortage() is not None

    def note_refusal(self) -> None:
        """Records a refused write, for quotas and remote disks whose free space is unknown."""
        self._refused_at = time.monotonic()

    def wait_for_room(self, should_stop: Callable[[], bool]) -> None:
        """Returns as soon as there is space, or when told to stop."""
        while self.shortage() is not None and not should_stop():
            time.sleep(_POLL_SECONDS)

    def _free_bytes(self) -> dict[str, int]:
        return {
            name: shutil.disk_usage(_existing(folder)).free
            for name, folder in self._folders.items()
        }


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"


def _sqlite_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0))


def _existing(folder: Path) -> Path:
    """The folder itself, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())
