"""Room on the disks: which errors say that there is none, and how much is left."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlalchemy.exc import DBAPIError

RESERVE_BYTES = 32 * 2**20
_REFUSAL_SECONDS = 5.0  # how long a refused write counts as a shortage
_POLL_SECONDS = 0.5

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_POSTGRES_DISK_FULL = "53100"
# SQLite has no other words for a shared-memory file that cannot grow.
_SQLITE_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE}
# With a full disk SQLite may also say one of these, which have other causes, too.
_SQLITE_PERHAPS_FULL = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


def is_disk_full(error: BaseException) -> bool:
    """Whether a file system or a database refused a write for lack of room."""
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM
    if not isinstance(error, DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.Error):
        return _sqlite_code(error.orig) in _SQLITE_FULL
    return getattr(error.orig, "sqlstate", None) == _POSTGRES_DISK_FULL


class DiskSpace:
    """Watches the folders that this deployment writes to.

    New work is refused while less than a reserve is free: running jobs need room for their results,
    and deleting something is a write, too.
    """

    def __init__(self, folders: Mapping[str, Path], reserve: int = RESERVE_BYTES) -> None:
        self._folders = dict(folders)
        self._reserve = reserve
        self._refused_at: float | None = None

    def shortage(self) -> str | None:
        """What is short, in words; None while there is room."""
        for name, folder in self._folders.items():
            free = shutil.disk_usage(_existing(folder)).free
            if free < self._reserve:
                return (
                    f"only {free / 2**20:.1f} MiB are free for {name}; "
                    f"{self._reserve / 2**20:.0f} MiB are kept for running jobs"
                )
        if self._refused_at is not None and time.monotonic() - self._refused_at < _REFUSAL_SECONDS:
            return "a write was refused because a disk is full"
        return None

    def explains(self, error: BaseException) -> bool:
        """Whether the error comes from a full disk, even if SQLite only calls it an I/O error."""
        if is_disk_full(error):
            return True
        orig = error.orig if isinstance(error, DBAPIError) else None
        if not isinstance(orig, sqlite3.Error):
            return False
        return _sqlite_code(orig) & 0xFF in _SQLITE_PERHAPS_FULL and self.shortage() is not None

    def note_refusal(self) -> None:
        """For quotas and for the database server's disk, whose free bytes nobody here can see."""
        self._refused_at = time.monotonic()

    def wait_for_room(self, should_stop: Callable[[], bool]) -> None:
        """Returns as soon as there is room, or when told to stop."""
        while self.shortage() is not None and not should_stop():
            time.sleep(_POLL_SECONDS)


def _sqlite_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0))


def _existing(folder: Path) -> Path:
    """The folder itself, or what it will be made in."""
    return next(path for path in (folder, *folder.parents) if path.exists())
