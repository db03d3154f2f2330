from __future__ import annotations

import re
import sys
from pathlib import Path

from store.artifacts.disk_space import DiskSpace


def test_free_space_above_the_reserve_is_no_shortage(tmp_path: Path) -> None:
    disk = DiskSpace({"artifacts": tmp_path / "not created yet"}, reserve=1)
    assert disk.below_reserve() is None
    assert disk.shortage() is None
    assert re.fullmatch(r"[\d.]+ MiB are free for artifacts", disk.free_space())


def test_free_space_below_the_reserve_is_a_shortage(tmp_path: Path) -> None:
    disk = DiskSpace({"artifacts": tmp_path}, reserve=sys.maxsize)
    assert str(disk.below_reserve()).startswith("only ")
    assert disk.shortage() == disk.below_reserve()


def test_a_refused_write_is_a_shortage_for_some_time() -> None:
    remote = DiskSpace({})
    remote.note_refusal()
    assert remote.shortage() == "a write was refused because a disk is full"
    assert remote.below_reserve() is None
    assert remote.free_space() == "its free space is unknown"
