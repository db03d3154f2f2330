"""Child processes: they restart when they die and never outlive their supervisor."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

MAX_LOG_BYTES = 10 * 2**20
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
STABLE_SECONDS = 30.0  # a child that lived this long is restarted at once

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_IMPORTANT_LEVELS = {"WARNING", "ERROR", "CRITICAL"}
_IMPORTANT_TEXT = re.compile(r"\b(ERROR|CRITICAL)\b|^\w*(Error|Exception)\b")


@dataclass(frozen=True)
class Command:
    """How to start one child."""

    name: str
    argv: tuple[str, ...]
    log: Path
    environment: Mapping[str, str] | None = None  # None: like the parent
    stdin: bytes | None = None  # for secrets: every user of the machine can read arguments
    niceness: int = 0
    folder: Path | None = None  # current folder; None: like the parent


@dataclass(frozen=True)
class Exit:
    """How a child ended."""

    code: int  # negative if a signal killed it
    uptime_seconds: float

    def __str__(self) -> str:
        if self.code < 0:
            return f"was killed by {signal.Signals(-self.code).name}"
        return f"exited with code {self.code}"


def die_with_parent(parent: int, niceness: int) -> Callable[[], None]:
    """A function to run in the child before exec; the kernel then kills it when its parent dies.

    The kernel watches the *thread* that forked, so start children from the main thread. A child
    cannot ignore SIGKILL. It is safe because of leases and the broker's append-only file.
    """

    def set_up_child() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the kernel watched it
            os._exit(1)
        os.nice(niceness)

    return set_up_child


def spawn(command: Command) -> subprocess.Popen[bytes]:
    """Start a child in its own session, so that Ctrl-C reaches only the supervisor."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    with command.log.open("ab") as log:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL if command.stdin is None else subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=None if command.environment is None else dict(command.environment),
            cwd=command.folder,
            start_new_session=True,
            # Safe: the supervisor has no threads.
            preexec_fn=die_with_parent(os.getpid(), command.niceness),  # noqa: PLW1509
        )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(command.stdin or b"")
    return process


class Child:
    """One supervised process; the pause before a restart grows with each early exit."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.starts = 0
        self.last_exit: Exit | None = None
        self.pause_seconds = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._restart_at = 0.0
        self._log_position = 0

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self.trim_log()
        self._log_position = self._log_size()
        self._process = spawn(self.command)
        self._started_at = time.monotonic()
        self.starts += 1

    def check(self) -> Exit | None:
        """The exit of the process, if it ended since the last check."""
        if self._process is None or not self._has_ended():
            return None
        # Kill its process group before reaping the pid: afterwards the pid could be reused.
        self._signal_group(signal.SIGKILL)
        uptime = time.monotonic() - self._started_at
        self.last_exit = Exit(self._process.wait(), uptime)
        self._process = None
        if uptime >= STABLE_SECONDS:
            self.pause_seconds = 0.0
        self._restart_at = time.monotonic() + self.pause_seconds
        self.pause_seconds = min(
            max(FIRST_PAUSE_SECONDS, 2 * self.pause_seconds), MAX_PAUSE_SECONDS
        )
        return self.last_exit

    def is_restart_due(self) -> bool:
        return self._process is None and time.monotonic() >= self._restart_at

    def terminate(self) -> None:
        if self._process is not None and not self._has_ended():
            self._process.terminate()

    def kill(self) -> None:
        if self._process is not None:
            self._signal_group(signal.SIGKILL)

    def important_lines(self) -> Iterator[str]:
        """Warnings and errors that the child logged since the last call."""
        for line in self._new_lines():
            message = important_message(line)
            if message is not None:
                yield message

    def last_lines(self, count: int = 12) -> list[str]:
        with contextlib.suppress(FileNotFoundError), self.command.log.open("rb") as log:
            log.seek(max(0, self._log_size() - 8192))
            return log.read().decode(errors="replace").splitlines()[-count:]
        return []

    def trim_log(self) -> None:
        """Move a long log to `<name>.1`; the child keeps appending to the emptied file."""
        if self._log_size() > MAX_LOG_BYTES:
            log = self.command.log
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
            self._log_position = 0

    def _new_lines(self) -> list[str]:
        if self._log_size() <= self._log_position:
            return []
        with self.command.log.open("rb") as log:
            log.seek(self._log_position)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._log_position += len(whole) + len(newline)
        return whole.decode(errors="replace").splitlines()

    def _log_size(self) -> int:
        return self.command.log.stat().st_size if self.command.log.exists() else 0

    def _has_ended(self) -> bool:
        """Check without reaping: the pid must stay valid until its group gets the signal."""
        assert self._process is not None
        if self._process.returncode is not None:
            return True
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            return self._process.poll() is not None
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, options) is not None

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def important_message(line: str) -> str | None:
    """The warning or error in a log line, if any; d4explain's processes log JSON lines."""
    try:
        record = json.loads(line)
    except ValueError:
        return line.strip() if _IMPORTANT_TEXT.search(line) else None
    if not isinstance(record, dict) or record.get("level") not in _IMPORTANT_LEVELS:
        return None
    job = f" ({record['job']})" if record.get("job") else ""
    return f"{record['level'].lower()}: {record.get('message', '')}{job}"


class Signals:
    """Waits for signals, so that no code runs inside a signal handler."""

    WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)

    def __enter__(self) -> Signals:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._previous_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        watched = set(self.WATCHED)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup
            watched.remove(signal.SIGHUP)
        self._previous = {number: signal.signal(number, _ignore) for number in watched}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> set[signal.Signals]:
        """Wait up to `seconds` for a signal, also SIGCHLD; return those that arrived."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        arrived = os.read(self._reader, 4096) if ready else b""
        return {signal.Signals(number) for number in arrived}


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """`Signals.wait` reads the number from the wakeup pipe."""
