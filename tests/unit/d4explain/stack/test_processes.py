"""Children die with their supervisor and are restarted when they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from d4explain.stack.processes import Child, Command, Signals, important_message

SUPERVISOR = """
import sys, time
from pathlib import Path
from d4explain.stack.processes import Child, Command
child = Child(Command("sleeper", ("sleep", "60"), Path(sys.argv[1])))
child.start()
print(child.pid, flush=True)
time.sleep(60)
"""


def eventually(condition: Callable[[], bool], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def python(log: Path, code: str) -> Child:
    return Child(Command("child", (sys.executable, "-c", code), log))


def ended(child: Child) -> bool:
    return child.check() is not None


def test_a_killed_supervisor_leaves_no_orphan(tmp_path: Path) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert supervisor.stdout is not None
    with supervisor.stdout:
        child = int(supervisor.stdout.readline())
        assert is_running(child)
        supervisor.kill()
        supervisor.wait()
    assert eventually(lambda: not is_running(child))


def test_a_child_that_exited_is_reported_and_restarted(tmp_path: Path) -> None:
    child = python(tmp_path / "log", "print('last line'); raise SystemExit(3)")
    child.start()
    assert eventually(lambda: ended(child))
    assert str(child.last_exit) == "exited with code 3"
    assert child.last_lines() == ["last line"]
    assert child.is_restart_due()  # immediately the first time
    child.start()
    assert eventually(lambda: ended(child))
    assert not child.is_restart_due()  # after a pause the second time
    assert eventually(child.is_restart_due)
    assert child.starts == 2


def test_pauses_between_starts_grow(tmp_path: Path) -> None:
    child = python(tmp_path / "log", "pass")
    pauses = []
    for _ in range(3):
        child.start()
        assert eventually(lambda: ended(child))
        pauses.append(child.pause_seconds)
    assert pauses == [0.5, 1.0, 2.0]


def test_grandchildren_die_with_the_child(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    child = python(tmp_path / "log", code)
    child.start()
    assert eventually(lambda: ended(child))
    grandchild = int(child.last_lines()[-1])
    assert eventually(lambda: not is_running(grandchild))


def test_kill_ends_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    ignore = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = python(tmp_path / "log", f"{ignore}; print(1, flush=True); time.sleep(60)")
    child.start()
    assert eventually(lambda: child.last_lines() == ["1"])
    child.terminate()
    time.sleep(0.1)
    assert child.check() is None
    child.kill()
    assert eventually(lambda: ended(child))
    assert str(child.last_exit) == "was killed by SIGKILL"


def test_stdin_is_not_on_the_command_line(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; print(sys.stdin.read())")
    child = Child(Command("child", argv, tmp_path / "log", stdin=b"secret"))
    child.start()
    assert child.pid is not None
    assert "secret" not in " ".join(psutil.Process(child.pid).cmdline())
    assert eventually(lambda: ended(child))
    assert "secret" in child.last_lines()


def test_children_have_their_own_process_group(tmp_path: Path) -> None:
    """Ctrl-C at a terminal goes to a process group: only the supervisor may get it."""
    child = python(tmp_path / "log", "import time; time.sleep(60)")
    child.start()
    assert child.pid is not None
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    child.kill()
    assert eventually(lambda: ended(child))


def test_only_new_warnings_and_errors_are_important(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"level": "ERROR", "message": "of an earlier run"}\n')
    code = (
        'print(\'{"level": "INFO", "message": "all is well"}\');'
        'print(\'{"level": "WARNING", "message": "the lease is lost", "job": "job_1"}\');'
        "print('plain text')"
    )
    child = python(log, code)
    child.start()
    assert eventually(lambda: ended(child))
    assert list(child.important_lines()) == ["warning: the lease is lost (job_1)"]
    assert list(child.important_lines()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"level": "CRITICAL", "message": "no disk"}', "critical: no disk"),
        ('{"level": "INFO", "message": "the word ERROR in a message"}', None),
        ("ValueError: not a number", "ValueError: not a number"),
        (
            "[2026-01-01 00:00:00: ERROR/MainProcess] gone",
            "[2026-01-01 00:00:00: ERROR/MainProcess] gone",
        ),
        ("# WARNING Memory overcommit must be enabled!", None),
        ("42", None),
    ],
)
def test_warnings_and_errors_are_recognised(line: str, message: str | None) -> None:
    assert important_message(line) == message


def test_signals_can_be_waited_for() -> None:
    before = signal.getsignal(signal.SIGINT)  # ignored if the tests run in the background
    with Signals() as signals:
        assert signals.wait(0) == set()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.wait(1) == {signal.SIGINT, signal.SIGTERM}
        began = time.monotonic()
        subprocess.Popen(["true"]).wait()
        assert signals.wait(5) == {signal.SIGCHLD}
        assert time.monotonic() - began < 4
    assert signal.getsignal(signal.SIGINT) is before


def test_a_long_log_is_moved_while_the_child_keeps_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("d4explain.stack.processes.MAX_LOG_BYTES", 10)
    log, go_on = tmp_path / "child.log", tmp_path / "go on"
    code = (
        "import pathlib, time; print('more than ten bytes', flush=True)\n"
        f"while not pathlib.Path({str(go_on)!r}).exists(): time.sleep(0.01)\n"
        "print('ERROR new')"
    )
    child = python(log, code)
    child.start()
    assert eventually(lambda: child.last_lines() == ["more than ten bytes"])
    assert list(child.important_lines()) == []
    child.trim_log()
    go_on.touch()
    assert eventually(lambda: ended(child))
    assert (tmp_path / "child.log.1").read_text() == "more than ten bytes\n"
    assert log.read_text() == "ERROR new\n"
    assert list(child.important_lines()) == ["ERROR new"]


def test_nohup_is_respected() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.wait(0.05) == set()
    finally:
        signal.signal(signal.SIGHUP, before)
