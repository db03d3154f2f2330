"""Only one stack can use a data folder, also after a crash."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from d4explain.errors import CommandError
from d4explain.stack.folder_lock import DataFolderLock, RunningStack, running_stack

HOLD = """
import sys, time
from pathlib import Path
from d4explain.stack.folder_lock import DataFolderLock
lock = DataFolderLock(Path(sys.argv[1]))
lock.acquire("http://127.0.0.1:1234")
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_stack_is_refused_with_pid_and_address(tmp_path: Path) -> None:
    first = DataFolderLock(tmp_path)
    first.acquire("http://127.0.0.1:8400")
    with pytest.raises(CommandError) as refused:
        DataFolderLock(tmp_path).acquire("http://127.0.0.1:8401")
    assert f"pid {os.getpid()} at http://127.0.0.1:8400" in refused.value.message
    assert str(tmp_path) in refused.value.message
    first.release()


def test_only_the_owner_can_read_a_new_folder(tmp_path: Path) -> None:
    lock = DataFolderLock(tmp_path / "data")
    lock.acquire("http://127.0.0.1:8400")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    lock.release()


def test_a_released_folder_can_be_locked_again(tmp_path: Path) -> None:
    first = DataFolderLock(tmp_path)
    first.acquire("http://127.0.0.1:8400")
    assert running_stack(tmp_path) == RunningStack(os.getpid(), "http://127.0.0.1:8400")
    first.release()
    assert running_stack(tmp_path) is None
    second = DataFolderLock(tmp_path)
    second.acquire("http://127.0.0.1:8401")
    second.release()


def test_the_lock_is_released_when_its_holder_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == "held\n"
        found = running_stack(tmp_path)
        assert found == RunningStack(holder.pid, "http://127.0.0.1:1234")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert running_stack(tmp_path) is None
    lock = DataFolderLock(tmp_path)
    lock.acquire("http://127.0.0.1:8400")
    lock.release()


def test_no_stack_runs_in_a_missing_folder(tmp_path: Path) -> None:
    assert running_stack(tmp_path / "none") is None


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CommandError, match="cannot be written") as refused:
        DataFolderLock(tmp_path / "file" / "data").acquire("http://127.0.0.1:8400")
    assert "--data-dir" in str(refused.value.hint)
