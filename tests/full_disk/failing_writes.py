"""Lets chosen writes of this process fail as on a full disk, with `failing_writes.c` preloaded."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_SOURCE = Path(__file__).with_name("failing_writes.c")
_FOREVER = 2**62


def compiler() -> str | None:
    """The C compiler of this machine, if it can build the library."""
    return shutil.which("cc") if sys.platform == "linux" else None


def preloading_environment(folder: Path) -> Mapping[str, str]:
    """Builds the library in the folder; a process with this environment loads it."""
    found = compiler()
    assert found is not None, "no C compiler"
    library = folder / "failing_writes.so"
    command = [found, "-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
    subprocess.run([*command, "-o", library, _SOURCE, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


class FailingDisk:
    """The disk below one folder, in a process that preloads the library."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(None)
        self._library.disk_calls.restype = ctypes.c_long
        self._library.disk_failed.restype = ctypes.c_long
        self._library.disk_what.restype = ctypes.c_char_p
        self._library.disk_watch(str(folder.resolve()).encode())

    def fail_once(self, number: int) -> None:
        """Fails one write, as if others were deleted at once."""
        self._fail(number, number, is_half=False)

    def fail_from(self, number: int) -> None:
        """Fails this write and all later ones, until `free`."""
        self._fail(number, _FOREVER, is_half=False)

    def fail_half(self, number: int) -> None:
        """Stores half of the bytes of this write; all later ones fail, until `free`."""
        self._fail(number, _FOREVER, is_half=True)

    def free(self) -> None:
        self._library.disk_free()

    @contextmanager
    def observing(self) -> Iterator[None]:
        """The calls of this thread neither count nor fail."""
        self._library.disk_observe(1)
        try:
            yield
        finally:
            self._library.disk_observe(0)

    @property
    def writes(self) -> int:
        """So far, failed ones included."""
        return int(self._library.disk_calls())

    @property
    def failed(self) -> int:
        return int(self._library.disk_failed())

    @property
    def is_full(self) -> bool:
        """Whether it says that it is full."""
        return bool(self._library.disk_is_full())

    @property
    def what_failed_first(self) -> str:
        """The call and the file, without the folder."""
        return bytes(self._library.disk_what()).decode()

    def _fail(self, first: int, last: int, *, is_half: bool) -> None:
        self._library.disk_fail(ctypes.c_long(first), ctypes.c_long(last), int(is_half))
