"""Allows one embedded stack per data folder; the kernel releases the lock when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from d4explain.errors import CommandError

LOCK_NAME = "stack.lock"


@dataclass(frozen=True)
class RunningStack:
    """The stack that serves a data folder."""

    pid: int
    address: str


class DataFolderLock:
    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / LOCK_NAME
        self._file: TextIO | None = None

    def acquire(self, address: str) -> None:
        """Lock the folder, or fail with the pid and address of the stack that holds it."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._path.open("a+", encoding="utf-8")
        except OSError as error:
            raise CommandError(
                f"the data folder {self._path.parent} cannot be written: {error.strerror}",
                hint="choose another with --data-dir or D4_DATA_DIR",
            ) from error
        if not _try_lock(file):
            stack = _read(file)
            file.close()
            holder = "another process" if stack is None else f"pid {stack.pid} at {stack.address}"
            raise CommandError(
                f"the data folder {self._path.parent} is already served by {holder}",
                hint="stop that stack first, or choose another folder with --data-dir",
            )
        self._file = file
        file.seek(0)
        file.truncate()
        json.dump(asdict(RunningStack(os.getpid(), address)), file)
        file.flush()

    def release(self) -> None:
        if self._file is not None:
            self._file.truncate(0)
            self._file.close()
            self._file = None


def running_stack(data_dir: Path) -> RunningStack | None:
    """The stack that serves this folder now, if any."""
    with contextlib.suppress(OSError), (data_dir / LOCK_NAME).open("r", encoding="utf-8") as file:
        if _try_lock(file, shared=True):
            return None
        return _read(file)
    return None


def _try_lock(file: TextIO, *, shared: bool = False) -> bool:
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: TextIO) -> RunningStack | None:
    file.seek(0)
    try:
        return RunningStack(**json.loads(file.read()))
    except (ValueError, TypeError):  # the holder has not finished writing it
        return None
